# Screenshots are described by a vision service; while that cannot be reached, a
# description is made of what was recognised on them. How many controls there are
# is known only then: each of them becomes an instance of its own.
workflow "screens" {
  description = "Describes screenshots and every control on them"
}

variable "vision" {
  type        = string
  description = "The vision service"
  default     = "http://127.0.0.1:9/describe"
}

plugin "http" {
  source = "std/http"

  sandbox {
    allow_hosts = ["http://127.0.0.1:9"]
  }
}

plugin "json" {
  source = "std/json"
}

locals {
  shots = { for s in jsondecode(file("shots.json")) : s.name => s }
}

step "describe" {
  for_each    = local.shots
  uses        = plugin.http.get
  concurrency = 2
  input       = { url = var.vision, query = { name = each.key } }

  retry {
    on           = [unavailable, timeout, rate_limited]
    max_attempts = 2
    delay        = "10ms"
  }

  fallback {
    on     = [unavailable, timeout]
    output = { status = 200, headers = {}, json = { text = "a screen with ${length(each.value.boxes)} controls" } }
  }
}

step "controls" {
  uses = plugin.json.jq
  input = {
    filter = "[.[] | .name as $n | .boxes[] | {screen: $n, kind, label}]"
    data   = values(local.shots)
  }
}

step "caption" {
  for_each = step.controls.output.result
  uses     = plugin.json.jq
  input = {
    filter = "\"\\(.kind) “\\(.label)” on \\(.screen)\""
    data   = each.value
  }
}

output "screens" {
  value = { for name, d in step.describe.output : name => d.json.text }
}

output "captions" {
  value = step.caption.output[*].result
}

output "degraded" {
  value = step.describe.degraded
}
