# Reads a book and writes a report on it: what it is about, who is in it, how
# its mood changes. The four analyses need only the chapters and run side by
# side; the report needs all of them.
workflow "document" {
  description = "Analyses a text chapter by chapter"
}

variable "text" {
  type        = string
  description = "The text to analyse, in any language, as in -var text=@book.txt; ours without it"
  default     = null
  nullable    = true
}

variable "keywords" {
  type        = number
  description = "How many keywords and names to report"
  default     = 15

  validation {
    condition     = var.keywords >= 1 && var.keywords <= 100 && floor(var.keywords) == var.keywords
    error_message = "keywords must be a whole number from 1 to 100."
  }
}

variable "sentences" {
  type        = number
  description = "How many sentences sum up a chapter"
  default     = 2

  validation {
    condition     = var.sentences >= 1 && var.sentences <= 20 && floor(var.sentences) == var.sentences
    error_message = "sentences must be a whole number from 1 to 20."
  }
}

plugin "split" {
  source = "./bin/split.wasm" # Go
}

plugin "entities" {
  source = "./steps/entities/entities.wasm" # AssemblyScript
}

plugin "keywords" {
  source = "./steps/keywords/keywords.wasm" # Rust
}

plugin "sentiment" {
  source = "./steps/sentiment/sentiment.wasm" # C
}

plugin "summary" {
  source = "./bin/summary.wasm" # Go
}

plugin "report" {
  source = "./bin/report" # Go, native
}

step "split" {
  uses  = plugin.split.split
  input = { text = var.text == null ? file("text/holmes.txt") : var.text }
}

step "entities" {
  uses  = plugin.entities.entities
  input = { chapters = step.split.output.chapters, limit = var.keywords }
}

step "keywords" {
  uses  = plugin.keywords.keywords
  input = { chapters = step.split.output.chapters, limit = var.keywords }
}

step "sentiment" {
  uses  = plugin.sentiment.sentiment
  input = { chapters = step.split.output.chapters }
}

step "summary" {
  uses  = plugin.summary.summary
  input = { chapters = step.split.output.chapters, sentences = var.sentences }
}

step "report" {
  uses = plugin.report.report
  input = {
    title     = step.split.output.title
    contents  = step.split.output.contents
    entities  = step.entities.output
    keywords  = step.keywords.output
    sentiment = step.sentiment.output
    summary   = step.summary.output
  }
}

output "chapters" {
  value = length(step.split.output.contents)
}

output "top_keywords" {
  value = [for k in step.keywords.output.keywords : k.phrase]
}

output "mood" {
  value = step.sentiment.output.overall.label
}

output "report" {
  value = step.report.output.markdown
}
