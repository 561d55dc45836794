package transport

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Refusals detects that the API server refuses to list or to watch what an agent must watch: it lacks the right, or
// the definition of the kind was deleted. It logs that once, and once that it is over, in place of a line from each
// attempt.
type Refusals struct {
	log *zap.Logger
	// resources are the names of the watched resources, as describe has them.
	resources []string

	mu sync.Mutex
	// refused has what was last refused, by verb and path. Guarded by mu.
	refused map[[2]string]*refusal
}

type refusal struct {
	since  time.Time
	status string
	logged bool
}

// refusedAfter is how long the API server must refuse before it is told: rights come some seconds after an agent that
// is installed with them.
const refusedAfter = 10 * time.Second

// NewRefusals returns Refusals without any observations.
func NewRefusals(log *zap.Logger, resources ...string) *Refusals {
	return &Refusals{log: log, resources: resources, refused: map[[2]string]*refusal{}}
}

// Wrap observes a transport.
func (r *Refusals) Wrap(next http.RoundTripper) http.RoundTripper {
	return Around(next, func(req *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(req)
		verb, resource := describe(req)
		if err != nil || verb != "list" && verb != "watch" || !slices.Contains(r.resources, resource) {
			return response, err
		}
		switch response.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
			r.note(verb, req.URL.Path, response.Status)
		case http.StatusOK:
			r.over(verb, req.URL.Path)
		}
		return response, err
	})
}

func (r *Refusals) note(verb, path, status string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, was := time.Now(), r.refused[[2]string{verb, path}]
	if was == nil {
		was = &refusal{since: now}
		r.refused[[2]string{verb, path}] = was
	}
	was.status = status
	// Without a list there is no watch to tell of.
	if unlisted := r.refused[[2]string{"list", path}]; was.logged || now.Sub(was.since) < refusedAfter || verb == "watch" && unlisted != nil {
		return
	}
	was.logged = true
	r.log.Warn("the API server refuses what the agent must read; has it the right, and is the CustomResourceDefinition installed?",
		zap.String("verb", verb), zap.String("path", path), zap.String("status", status), zap.Time("since", was.since))
}

// over notes an answer. A watch has all that a list has.
func (r *Refusals) over(verb, path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range []string{"list", "watch"} {
		if was := r.refused[[2]string{v, path}]; was != nil && (v == verb || verb == "watch") {
			delete(r.refused, [2]string{v, path})
			if was.logged {
				r.log.Info("the API server refuses no more", zap.String("verb", v), zap.String("path", path), zap.Duration("after", time.Since(was.since)))
			}
		}
	}
}

// Problem says what can't be listed, so that what is known of it is out of date; empty: nothing.
func (r *Refusals) Problem() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	path, first := "", (*refusal)(nil)
	for key, was := range r.refused {
		if key[0] == "list" && time.Since(was.since) >= refusedAfter && (first == nil || key[1] < path) {
			path, first = key[1], was
		}
	}
	if first == nil {
		return ""
	}
	return fmt.Sprintf("the API server has refused to list %s since %s: %s; has the agent the right, and is the CustomResourceDefinition installed?",
		path, first.since.UTC().Format(time.RFC3339), first.status)
}
