# A long text in parts: split into chapters, each chapter worked on by itself,
# and one answer made of all of them.
workflow "fanout" {
  description = "Summaries and moods of every chapter of a text, and one page of them"
  concurrency = 4
}

variable "text" {
  type        = string
  description = "The text, with headings"
}

variable "sentences" {
  type    = number
  default = 1
}

plugin "text" { source = "std/text" }
plugin "template" { source = "std/template" }

step "split" {
  uses  = plugin.text.split
  input = { text = var.text }
}

# Map: one call for each chapter. A chapter that is edited runs again alone.
step "summary" {
  uses        = plugin.text.summary
  for_each    = step.split.output.chapters
  concurrency = 3
  input       = { text = each.value.text, sentences = var.sentences }
}

# Chained: the page of a chapter is written as soon as its summary is there.
step "page" {
  uses     = plugin.template.render
  for_each = step.summary.output
  input = {
    template = "{{.n}}. {{.about}}"
    data     = { n = each.key + 1, about = join(" ", [for c in each.value.chapters : join(" ", c.sentences)]) }
  }
}

# Reduce: everything, in the order of the chapters.
step "book" {
  uses = plugin.template.render
  input = {
    template = "{{range .pages}}{{.}}\n{{end}}"
    data     = { pages = [for p in step.page.output : p.text] }
  }
}

output "book" { value = step.book.output.text }
output "chapters" { value = length(step.page.output) }
