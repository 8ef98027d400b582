variables {
  date = "2026-03-01"
}

secrets {
  client = "the client secret of the tests"
}

# The first token has expired: the action gives another, and the second attempt is
# made with that. The first label is none of ours: the model is asked again, and
# told why. That of the third article is never right.
run "day" {
  mock_plugin "http" {
    mock_step "request" {
      output = { status = 200, headers = {}, json = { access_token = "a token of the tests", expires_in = 300 } }
    }
  }
  override_step "articles" {
    sequence = [
      { error = { class = "unauthorized", message = "token expired" } },
      { output = { status = 200, headers = {}, json = { articles = [
        { id = "a", text = "Der Bundestag hat …" },
        { id = "b", text = "新しい望遠鏡 🔭" },
        { id = "c", text = "?" },
      ] } } },
    ]
  }
  override_step "label[0]" {
    sequence = [
      { output = { text = "", json = { label = "Politics!" } } },
      { output = { text = "", json = { label = "politics" } } },
    ]
  }
  override_step "label[1]" {
    output = { text = "", json = { label = "science" } }
  }
  override_step "label[2]" {
    output = { text = "", json = { label = "weather" } }
  }
  override_step "brief" {
    output = { text = "A quiet day." }
  }
  assert {
    condition     = step.articles.attempts == 2
    error_message = "the articles took ${step.articles.attempts} attempts"
  }
  assert {
    condition     = step.label.attempts[0] == 2 && output.labels == { a = "politics", b = "science", c = "other" }
    error_message = jsonencode(output.labels)
  }
  assert {
    condition     = output.unlabelled == ["c"] && output.brief == "A quiet day."
    error_message = jsonencode(output.unlabelled)
  }
}

# A token that is refused again is no reason to go on asking.
run "locked_out" {
  mock_plugin "http" {
    mock_step "request" {
      output = { status = 200, headers = {}, json = { access_token = "a token of the tests", expires_in = 300 } }
    }
  }
  override_step "articles" {
    error = { class = "unauthorized", message = "no such client" }
  }
  expect_failures = [step.articles, output.brief, output.labels, output.unlabelled]
  assert {
    condition     = step.articles.error.class == "unauthorized" && step.articles.attempts == 2
    error_message = "it was tried ${step.articles.attempts} times"
  }
}

# Without a secret for the action, and with a token instead: the action is not asked.
run "own_token" {
  secrets {
    token = "given by the test"
  }
  override_step "articles" {
    output = { status = 200, headers = {}, json = { articles = [] } }
  }
  override_step "brief" {
    output = { text = "Nothing happened." }
  }
  assert {
    condition     = output.labels == {} && output.brief == "Nothing happened."
    error_message = jsonencode(output.labels)
  }
}
