workflow "triage" {
  description = "Says of each support ticket what it is about and how urgent it is"
  concurrency = 4
}

variable "tickets" {
  type        = list(string)
  description = "The tickets, as they came in"
}

variable "temperature" {
  type    = number
  default = 0
}

variable "max_tokens" {
  type    = number
  default = 60
}

variable "structured" {
  type        = string
  default     = "schema"
  description = "What the server is told of the schema: schema, json or none. The answer is held against it anyway"
}

plugin "ai" {
  source = "std/llm"
  config = {
    base_url = "http://127.0.0.1:8085"
    model    = "tickets"
    defaults = { seed = 7, first_token_timeout = "30s", idle_timeout = "15s" }
  }
  sandbox {
    allow_hosts = ["http://127.0.0.1:8085"]
  }
}

step "triage" {
  uses     = plugin.ai.chat
  for_each = var.tickets
  input = {
    prompt      = "classify: ${each.value}"
    temperature = var.temperature
    max_tokens  = var.max_tokens
    structured  = var.structured
    schema = {
      type                 = "object"
      required             = ["label", "urgency"]
      additionalProperties = false
      properties = {
        label   = { enum = ["billing", "bug", "praise", "access"] }
        urgency = { enum = ["low", "high"] }
      }
    }
  }
  timeout = "1m"
  retry {
    on           = [timeout, unavailable, rate_limited, api_error]
    max_attempts = 3
    delay        = "500ms"
  }
}

output "answers" {
  value = [for a in step.triage.output : a.json]
}

output "urgent" {
  description = "What should be read first"
  value       = [for i, a in step.triage.output : var.tickets[i] if a.json.urgency == "high"]
}
