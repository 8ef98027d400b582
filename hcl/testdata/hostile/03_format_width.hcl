step "a" {
  uses  = plugin.p.run
  input = { v = "${format("%1000000000s", "x")}" }
}
