package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/retrace-dev/engine/sdk"
)

// config is the plugin block's: an endpoint, and what holds for every question
// unless the question says otherwise.
type config struct {
	API      string                     `json:"api"`
	BaseURL  string                     `json:"base_url"`
	Model    string                     `json:"model"`
	Token    *sdk.HeaderValue           `json:"token"`
	Headers  map[string]sdk.HeaderValue `json:"headers"`
	Defaults json.RawMessage            `json:"defaults"` // fields of an input

	dialect dialect
}

// dialects by the name of the api, with the endpoint of who speaks it first and
// the path that follows a base_url without one.
var dialects = map[string]struct {
	dialect
	base, path string
}{
	"openai":    {openAI{}, "https://api.openai.com", "/v1"},
	"anthropic": {anthropic{}, "https://api.anthropic.com", "/v1"},
	"gemini":    {gemini{}, "https://generativelanguage.googleapis.com", "/v1beta"},
}

func parseConfig(text json.RawMessage) (*config, error) {
	var c config
	if err := sdk.Unmarshal(text, &c); err != nil {
		return nil, invalid("", "the plugin's config cannot be read: %v", err)
	}
	if c.API == "" {
		c.API = "openai"
	}
	d, ok := dialects[c.API]
	if !ok {
		return nil, invalid("", "config.api is %q; it may be openai, anthropic or gemini", c.API)
	}
	c.dialect = d.dialect
	if c.BaseURL == "" {
		c.BaseURL = d.base
	}
	u, err := url.Parse(c.BaseURL)
	if err != nil || u.Host == "" || u.RawQuery != "" {
		return nil, invalid("", "config.base_url %q is no URL such as %s%s", c.BaseURL, d.base, d.path)
	}
	c.BaseURL = strings.TrimRight(c.BaseURL, "/")
	if strings.Trim(u.Path, "/") == "" {
		c.BaseURL += d.path
	}
	return &c, nil
}

// operation is a request to a path below the base URL, with the token in the
// given header.
func (c *config) operation(method, path, header, prefix string) sdk.HTTPOp {
	op := sdk.HTTPOp{Method: method, URL: c.BaseURL + path, Headers: map[string][]string{}}
	if c.Token != nil {
		c.Token.Set(&op, header, prefix)
	}
	for name, value := range c.Headers {
		value.Set(&op, name, "")
	}
	return op
}

func invalid(path, format string, args ...any) *sdk.Error {
	return &sdk.Error{Class: sdk.ClassInvalidInput, Path: path, Message: fmt.Sprintf(format, args...)}
}
