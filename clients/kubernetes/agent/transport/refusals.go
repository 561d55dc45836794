package transport

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Refusals detects that the API server refuses to list or to watch what an agent must watch: it lacks the right, or
// the definition of the kind was deleted. It logs that once, and once that it is over, in place of a line from each
// attempt. A namespace without the right is a matter of its own objects, the others go on.
type Refusals struct {
	log *zap.Logger
	// resources are the names of the watched resources, as describe has them.
	resources []string
	// served are the namespaces that are listed each by itself; empty: all by one list.
	served map[string]bool

	mu sync.Mutex
	// refused has what was last refused, by verb and path. Guarded by mu.
	refused map[[2]string]*refusal
	// distrusted is until when a namespace's objects may still be those from before a refusal. Guarded by mu.
	distrusted map[string]time.Time
}

type refusal struct {
	since  time.Time
	status string
	// namespace that can't be read for want of the right, allNamespaces of a list of all.
	namespace string
	rights    bool
	logged    bool
}

// allNamespaces is the namespace of a list of all.
const allNamespaces = ""

const (
	// refusedAfter is how long the API server must refuse before it is told: rights come some seconds after an agent that
	// is installed with them.
	refusedAfter = 10 * time.Second
	// distrust is how long after such a refusal an informer may still have the objects from before, or none: it decodes a
	// list after the answer has begun.
	distrust = 10 * time.Second
)

// ErrRefused is wrapped by what Unread returns.
var ErrRefused = errors.New("the API server refuses to list what the agent must know")

// NewRefusals returns Refusals without any observations. No namespaces: all.
func NewRefusals(log *zap.Logger, namespaces []string, resources ...string) *Refusals {
	r := &Refusals{log: log, resources: resources, served: map[string]bool{}, refused: map[[2]string]*refusal{}, distrusted: map[string]time.Time{}}
	for _, namespace := range namespaces {
		r.served[namespace] = true
	}
	return r
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
			r.note(verb, req.URL.Path, response)
		case http.StatusOK:
			r.over(verb, req.URL.Path)
		}
		return response, err
	})
}

func (r *Refusals) note(verb, path string, response *http.Response) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, was := time.Now(), r.refused[[2]string{verb, path}]
	if was == nil {
		was = &refusal{since: now, namespace: namespaceOf(path)}
		r.refused[[2]string{verb, path}] = was
	}
	was.status, was.rights = response.Status, response.StatusCode != http.StatusNotFound
	// Without a list there is no watch to tell of.
	if unlisted := r.refused[[2]string{"list", path}]; was.logged || now.Sub(was.since) < refusedAfter || verb == "watch" && unlisted != nil {
		return
	}
	was.logged = true
	r.log.Warn("the API server refuses what the agent must read; has it the right, and is the CustomResourceDefinition installed?",
		zap.String("verb", verb), zap.String("path", path), zap.String("status", was.status), zap.Time("since", was.since))
}

// over notes an answer. A watch has all that a list has.
func (r *Refusals) over(verb, path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range []string{"list", "watch"} {
		if was := r.refused[[2]string{v, path}]; was != nil && (v == verb || verb == "watch") {
			delete(r.refused, [2]string{v, path})
			if v == "list" && was.rights && time.Since(was.since) >= refusedAfter {
				r.distrusted[was.namespace] = time.Now().Add(distrust)
			}
			if was.logged {
				r.log.Info("the API server refuses no more", zap.String("verb", v), zap.String("path", path), zap.Duration("after", time.Since(was.since)))
			}
		}
	}
}

// namespaceOf returns the namespace in the path of a list.
func namespaceOf(path string) string {
	i := strings.LastIndex(path, "/namespaces/")
	if i < 0 {
		return allNamespaces
	}
	namespace, _, _ := strings.Cut(path[i+len("/namespaces/"):], "/")
	return namespace
}

// Unread says that what is known of a namespace's objects is out of date, for want of the right to list some of them;
// nil: it is not.
func (r *Refusals) Unread(namespace string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, was := range r.refused {
		if key[0] == "list" && was.rights && (was.namespace == namespace || was.namespace == allNamespaces) {
			return fmt.Errorf("%w: %s: %s", ErrRefused, key[1], was.status)
		}
	}
	for _, of := range []string{namespace, allNamespaces} {
		if until, ok := r.distrusted[of]; ok && time.Now().Before(until) {
			return fmt.Errorf("%w: it did until some seconds ago", ErrRefused)
		}
		delete(r.distrusted, of)
	}
	return nil
}

// Namespaces returns in how many of the served namespaces the agent lacks the right to list what it must; all by one list
// count as one.
func (r *Refusals) Namespaces() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.namespaces())
}

// namespaces are those without the right. The caller holds the lock.
func (r *Refusals) namespaces() map[string]bool {
	without := map[string]bool{}
	for key, was := range r.refused {
		if key[0] == "list" && was.rights && time.Since(was.since) >= refusedAfter {
			without[was.namespace] = true
		}
	}
	return without
}

// Problem says what can't be listed, so that what is known of it is out of date; empty: nothing, or that of some namespaces
// while others are read.
func (r *Refusals) Problem() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	others := len(r.namespaces()) < len(r.served)
	path, first := "", (*refusal)(nil)
	for key, was := range r.refused {
		if key[0] == "list" && time.Since(was.since) >= refusedAfter && (first == nil || key[1] < path) && (!was.rights || !others) {
			path, first = key[1], was
		}
	}
	if first == nil {
		return ""
	}
	return fmt.Sprintf("the API server has refused to list %s since %s: %s; has the agent the right, and is the CustomResourceDefinition installed?",
		path, first.since.UTC().Format(time.RFC3339), first.status)
}
