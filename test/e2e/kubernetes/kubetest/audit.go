//go:build linux

package kubetest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// Request is one that the API server has answered; a watch counts when it begins.
type Request struct {
	// User and Agent are the sender's.
	User, Agent string
	// Verb is Kubernetes' (get, list, watch, create, update, patch, delete …) where
	// there is a resource, otherwise HTTP's in lower case.
	Verb string
	// Group, Resource and Subresource of the request; "" for other paths.
	Group, Resource, Subresource string
	Namespace, Name              string
	// Path with its query.
	Path string
	// Code is HTTP's.
	Code int
	// Received is the time of the request.
	Received time.Time
}

// What is the verb and the resource, such as "update deployments/scale".
func (r Request) What() string {
	if r.Resource == "" {
		return r.Verb + " " + r.Path
	}
	what := r.Verb + " " + r.Resource
	if r.Subresource != "" {
		what += "/" + r.Subresource
	}
	return what
}

// Requests are in the order of their answers.
type Requests []Request

// Of returns the requests of a user: an Account's User, or NativeUser.
func (all Requests) Of(user string) Requests {
	var own Requests
	for _, request := range all {
		if request.User == user {
			own = append(own, request)
		}
	}
	return own
}

// Counts returns the number of requests of each kind, by What.
func (all Requests) Counts() map[string]int {
	counts := make(map[string]int)
	for _, request := range all {
		counts[request.What()]++
	}
	return counts
}

// NativeUser is the native controller of HorizontalPodAutoscalers.
const NativeUser = "system:serviceaccount:kube-system:horizontal-pod-autoscaler"

// Mark is a place in the log of requests, the beginning of a line.
type Mark int64

// longestLine is more than a line of the log has.
const longestLine = 1 << 20

// Mark returns the end of the log of requests, to read on from. A line that is being
// written counts as after it: a file's size can be seen to grow in the midst of one.
func (c *Cluster) Mark(t testing.TB) Mark {
	t.Helper()
	end, err := endOfLines(c.files.path("audit.log"))
	fatal.If(t, err)
	return Mark(end)
}

// endOfLines returns the offset after a file's last whole line, 0 of no file.
func endOfLines(name string) (int64, error) {
	file, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer file.Close()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	from := max(0, size-longestLine)
	tail := make([]byte, size-from)
	if _, err := file.ReadAt(tail, from); err != nil {
		return 0, err
	}
	return from + int64(bytes.LastIndexByte(tail, '\n')) + 1, nil
}

// Since returns the requests that were answered after the mark. It is exact: the API
// server writes each down before it answers.
func (c *Cluster) Since(t testing.TB, mark Mark) Requests {
	t.Helper()
	all, err := readAudit(c.files.path("audit.log"), int64(mark))
	fatal.If(t, err)
	return all
}

func readAudit(name string, from int64) (Requests, error) {
	log, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	if _, err := log.Seek(from, io.SeekStart); err != nil {
		return nil, err
	}
	var all Requests
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all, nil // a line without an end is being written
		}
		if err != nil {
			return nil, err
		}
		request, counts, err := parseAudit(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if counts {
			all = append(all, request)
		}
	}
}

// parseAudit reads a line; counts is whether it stands for a request: others are of
// its other stages.
func parseAudit(line []byte) (request Request, counts bool, err error) {
	var event struct {
		Stage, Verb, UserAgent, RequestURI string
		User                               struct{ Username string }
		ObjectRef                          struct{ APIGroup, Resource, Subresource, Namespace, Name string }
		ResponseStatus                     struct{ Code int }
		RequestReceivedTimestamp           time.Time
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return Request{}, false, err
	}
	ref := event.ObjectRef
	// A watch that is refused does not begin.
	began := event.Stage == "ResponseStarted" && event.Verb == "watch"
	completed := event.Stage == "ResponseComplete" && (event.Verb != "watch" || event.ResponseStatus.Code >= 400)
	return Request{
		User: event.User.Username, Agent: event.UserAgent, Verb: event.Verb,
		Group: ref.APIGroup, Resource: ref.Resource, Subresource: ref.Subresource, Namespace: ref.Namespace, Name: ref.Name,
		Path: event.RequestURI, Code: event.ResponseStatus.Code, Received: event.RequestReceivedTimestamp,
	}, began || completed, nil
}
