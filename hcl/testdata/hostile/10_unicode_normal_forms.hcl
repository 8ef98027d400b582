step "café" {
  uses = plugin.p.run
}

step "café" {
  uses = plugin.p.run
}
