step "a" {
  uses = plugin.p.run
  input = {
    p1 = file("../../../../etc/passwd")
    p2 = file("/etc/passwd")
    p3 = file("/proc/self/environ")
    p4 = file("prompts/../../secrets.env")
    p5 = file("link-to-root/etc/passwd")
    p6 = templatefile("../x.tmpl", {})
    p7 = file("/dev/zero")
    p8 = file("fifo")
  }
}
