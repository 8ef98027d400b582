workflow "pages" {
  description = "Says what a long document is about: each page by itself, then the whole"
  concurrency = 8
}

variable "document" {
  type        = string
  description = "A text. A form feed ends a page"
}

locals {
  pages = split("\u000c", var.document)
}

plugin "ai" {
  source = "std/llm"
  config = {
    base_url = "http://127.0.0.1:11434"
    model    = "llama3.2"
    defaults = { temperature = 0, seed = 1, first_token_timeout = "2m" }
  }
  sandbox {
    allow_hosts = ["http://127.0.0.1:11434"]
  }
}

step "page" {
  uses     = plugin.ai.chat
  for_each = local.pages
  input = {
    system = "You read one page of a document and note its points, one sentence each. A page without text has none."
    prompt = "This is page ${each.key + 1} of ${length(local.pages)}.\n\n${each.value}"
    schema = {
      type                 = "object"
      required             = ["points"]
      additionalProperties = false
      properties           = { points = { type = "array", maxItems = 10, items = { type = "string", minLength = 1 } } }
    }
    last_error = attempt.last_error # what was wrong is told to the model
  }
  timeout = "5m"

  retry {
    on             = [timeout, unavailable, rate_limited, api_error]
    max_attempts   = 5
    delay          = "1s"
    delay_function = "exponential"
    max_delay      = "1m"
    jitter         = 0.2
  }
  retry {
    on           = [validation, truncated]
    max_attempts = 3
  }
  # A page that cannot be read is missing; the other forty-nine are not lost.
  fallback {
    output = { text = "", json = { points = [] } }
  }
}

step "whole" {
  uses = plugin.ai.chat
  input = {
    system = "You are given the points of each page of a document. Say in one paragraph what the document is about."
    prompt = jsonencode([for i, p in step.page.output : { page = i + 1, points = p.json.points } if length(p.json.points) > 0])
    schema = {
      type       = "object"
      required   = ["summary"]
      properties = { summary = { type = "string", minLength = 1 } }
    }
    last_error = attempt.last_error
  }
  retry {
    on           = [timeout, unavailable, rate_limited, api_error, validation]
    max_attempts = 4
    delay        = "1s"
  }
}

output "summary" { value = step.whole.output.json.summary }

output "points" { value = [for p in step.page.output : p.json.points] }

output "missing" {
  description = "Pages that no answer was good enough for"
  value       = [for i, d in step.page.degraded : i + 1 if d]
}
