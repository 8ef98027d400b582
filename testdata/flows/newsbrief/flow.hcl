workflow "newsbrief" {
  description = "A brief of the day's news: each article with a label of our own list, and one text about all"
  concurrency = 4
}

variable "date" {
  type        = string
  description = "The day, as 2026-03-01"
}

variable "labels" {
  type    = list(string)
  default = ["politics", "business", "science", "culture", "sports"]
}

locals {
  labels = concat(var.labels, ["other"])
}

# What a token is bought with. It never leaves but for the service that gives tokens.
secret "client" {
  env   = "NEWS_CLIENT_SECRET"
  hosts = ["login.news.example"]
}

# The token that the news service wants. It lives for minutes: the action runs when
# the token is first needed, and again when a retry says so.
secret "token" {
  action = action.token
  path   = "json.access_token"
  hosts  = ["api.news.example"]
}

plugin "http" {
  source = "std/http"
  sandbox {
    allow_hosts = ["login.news.example", "api.news.example"]
  }
}

plugin "ai" {
  source = "std/llm"
  config = {
    base_url = "http://127.0.0.1:11434"
    model    = "llama3.2"
    defaults = { temperature = 0, seed = 1 }
  }
  sandbox {
    allow_hosts = ["http://127.0.0.1:11434"]
  }
}

action "token" {
  uses = plugin.http.request
  input = {
    method   = "POST"
    url      = "https://login.news.example/token"
    bearer   = secret.client
    form     = { grant_type = "client_credentials" }
    response = "json"
  }
  retry {
    on           = [timeout, unavailable]
    max_attempts = 3
  }
}

step "articles" {
  uses = plugin.http.get
  input = {
    url      = "https://api.news.example/articles"
    query    = { date = var.date }
    bearer   = secret.token
    response = "json"
  }
  # A token that has expired is replaced by a new one, and the same is asked again.
  retry {
    on           = [unauthorized]
    max_attempts = 2
    delay        = "0s"
    before       = action.token
  }
  retry {
    on           = [timeout, unavailable, rate_limited]
    max_attempts = 5
    max_delay    = "1m"
  }
}

step "label" {
  uses     = plugin.ai.chat
  for_each = step.articles.output.json.articles
  input = {
    system = "You label news. Answer with one of: ${join(", ", local.labels)}."
    prompt = each.value.text
    schema = {
      type       = "object"
      required   = ["label"]
      properties = { label = { type = "string" } }
    }
    # What was wrong with the answer before goes back to the model.
    last_error = attempt.last_error
  }
  retry {
    on           = [validation]
    max_attempts = 3
    delay        = "0s"
  }
  postcondition {
    condition     = contains(local.labels, self.output.json.label)
    error_message = "${self.output.json.label} is none of ${join(", ", local.labels)}"
  }
  # An article that nobody could label is in the brief all the same.
  fallback {
    on     = [validation]
    output = { text = "", json = { label = "other" } }
  }
}

step "brief" {
  uses = plugin.ai.chat
  input = {
    system = "Write a brief of at most five sentences."
    prompt = join("\n", [for i, a in step.articles.output.json.articles : "[${step.label.output[i].json.label}] ${a.text}"])
  }
  retry {
    max_attempts = 3
  }
}

output "brief" { value = step.brief.output.text }

output "labels" {
  value = { for i, a in step.articles.output.json.articles : a.id => step.label.output[i].json.label }
}

output "unlabelled" {
  value = [for i, a in step.articles.output.json.articles : a.id if step.label.degraded[i]]
}
