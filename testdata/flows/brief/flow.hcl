workflow "brief" {}

variable "text" {
  type = string
}
plugin "words" {
  source = "../document/steps/keywords/keywords.wasm" # Rust
}
plugin "mood" {
  source = "../document/steps/sentiment/sentiment.wasm" # C
}
step "keywords" {
  uses  = plugin.words.keywords
  input = { chapters = [{ number = 1, text = var.text }], limit = 3 }
}
step "mood" {
  uses  = plugin.mood.sentiment
  input = { chapters = [{ number = 1, text = join(". ", [for k in step.keywords.output.keywords : k.phrase]) }] }
}
output "about" { value = [for k in step.keywords.output.keywords : k.phrase] }
output "mood" { value = step.mood.output.overall.label }
