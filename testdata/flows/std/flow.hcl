# A letter made of a text, with nothing but what ships inside the engine.
workflow "std" {
  description = "Says in three lines what a text is about"
}

variable "text" {
  type        = string
  description = "The text, in English or Chinese"
}

plugin "text" { source = "std/text" }
plugin "json" { source = "std/json" }
plugin "template" { source = "std/template" }

step "keywords" {
  uses  = plugin.text.keywords
  input = { text = var.text, limit = 5 }
}

step "mood" {
  uses  = plugin.text.sentiment
  input = { text = var.text }
}

step "facts" {
  uses = plugin.json.jq
  input = {
    filter = "{about: [.keywords.keywords[] | select(.score >= 1) | .phrase], mood: .mood.overall}"
    data   = { keywords = step.keywords.output, mood = step.mood.output }
  }
}

step "letter" {
  uses = plugin.template.render
  input = {
    template = <<-EOT
      It is about {{join ", " .about}}.
      It is {{.mood.label}} ({{.mood.score}}).
      {{- range $i, $a := .about}}
      {{add $i 1}}. {{upper $a}}
      {{- end}}
    EOT
    data     = step.facts.output.result
  }
}

output "letter" { value = step.letter.output.text }
