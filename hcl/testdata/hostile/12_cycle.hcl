step "a" {
  uses       = plugin.p.run
  depends_on = ["b"]
}

step "b" {
  uses       = plugin.p.run
  depends_on = [step.a]
}

step "c" {
  uses       = plugin.p.run
  depends_on = [step.d]
}

step "d" {
  uses       = plugin.p.run
  depends_on = [step.c]
}
