step "a" {
  uses  = plugin.p.run
  input = { v = [for x in range(10000000) : x] }
}
