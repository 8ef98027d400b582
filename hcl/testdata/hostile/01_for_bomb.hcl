step "a" {
  uses  = plugin.p.run
  input = { v = [for i in range(1000) : [for j in range(1000) : [for k in range(1000) : i * j * k]]] }
}
