step "a" {
  uses  = plugin.p.run
  input = { v = "x" }
}
