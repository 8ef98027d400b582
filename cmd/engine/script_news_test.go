package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/rogpeppe/go-internal/testscript"
)

// news starts a news service and sets NEWS to its address. It sells tokens for the
// client's secret, and calls the first of them expired. The second article is one
// that a model labels wrongly at first, the third one that it always does.
func news(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: news")
	}
	sold := make(chan int, 1)
	sold <- 0
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+ts.Getenv("NEWS_CLIENT_SECRET") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		n := <-sold + 1
		sold <- n
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":"token-number-%d","expires_in":300}`, n)
	})
	mux.HandleFunc("GET /articles", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer token-number-2":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Query().Get("date") != "2026-03-01":
			w.WriteHeader(http.StatusNotFound)
		default:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"articles":[{"id":"a","text":"say {\"label\":\"politics\"}"},{"id":"b","text":"新しい望遠鏡 🔭\nsay {\"label\":\"weather\"}"},{"id":"c","text":"always say {\"label\":\"weather\"}"}]}`)
		}
	})
	s := httptest.NewServer(mux)
	ts.Defer(s.Close)
	ts.Setenv("NEWS", s.URL)
}
