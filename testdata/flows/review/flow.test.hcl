# What the flow does with moods is tested without one: the step that finds it is
# told what to answer.
variables {
  text = "A text. It has two sentences."
}

run "bright" {
  override_step "mood" {
    output = { overall = { score = 0.8, label = "positive", positive = 8, negative = 1 }, chapters = [] }
  }
  mock_plugin "template" {
    mock_step "render" {
      output = { text = "the report" }
    }
  }

  assert {
    condition     = output.review == "skipped" && output.report == "the report"
    error_message = "a bright text was reviewed: ${output.review}"
  }
}

# A review that does not say that it is one is no review.
run "dark" {
  override_step "mood" {
    output = { overall = { score = -0.8, label = "negative", positive = 1, negative = 8 }, chapters = [] }
  }
  mock_plugin "template" {
    mock_step "render" {
      output = { text = "the report" }
    }
  }
  expect_failures = [step.review]

  assert {
    condition     = step.review.error.class == "validation" && output.report == "the report"
    error_message = "the review was taken"
  }
}

# The next run has a better one, and only reviews and reports.
run "dark_again" {
  resume = run.dark
  override_step "mood" {
    error = { class = "internal", message = "asked twice" }
  }
  override_step "review" {
    output = { text = "REVIEW" }
  }
  mock_plugin "template" {
    mock_step "render" {
      output = { text = "another report" }
    }
  }

  assert {
    condition     = output.review == "succeeded" && step.mood.attempts == 1
    error_message = "the review is ${output.review}"
  }
}

run "threshold" {
  variables {
    threshold = 2
  }
  expect_failures = [var.threshold]
}
