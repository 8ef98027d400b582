step "a" {
  uses     = plugin.p.run
  for_each = range(10000000)
  input    = { v = each.value }
}
