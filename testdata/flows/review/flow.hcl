# A text is analysed; what reads dark goes through a review before it is
# reported on, everything else does not.
workflow "review" {
  description = "Analyses a text and has it reviewed where that is called for"
}

variable "text" {
  type        = string
  description = "The text to analyse, as in --var text=@letter.txt"
}

variable "threshold" {
  type        = number
  description = "Texts with a score below this are reviewed; -1 is dark, 1 bright"
  default     = -0.2

  validation {
    condition     = var.threshold >= -1 && var.threshold <= 1
    error_message = "threshold is a score from -1 to 1."
  }
}

plugin "text" {
  source = "std/text"
}

plugin "template" {
  source = "std/template"
}

step "mood" {
  uses  = plugin.text.sentiment
  input = { text = var.text }
}

step "summary" {
  uses  = plugin.text.summary
  input = { text = var.text, sentences = 1 }
}

# Skipped unless the condition holds; the summary is not even waited for then.
step "review" {
  when = step.mood.output.overall.score < var.threshold
  uses = plugin.template.render
  input = {
    template = file("review.tmpl")
    data     = { score = step.mood.output.overall.score, chapters = step.summary.output.chapters }
  }

  postcondition {
    condition     = strcontains(self.output.text, "REVIEW")
    error_message = "A review says that it is one."
  }
}

step "report" {
  uses = plugin.template.render
  input = {
    template = "{{.label}}: {{.status}}"
    data = {
      label  = step.mood.output.overall.label
      status = try("reviewed\n${step.review.output.text}", "no review needed")
    }
  }
}

output "report" {
  value = step.report.output.text
}

output "review" {
  description = "Whether there was one"
  value       = step.review.status
}
