package nomadtest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// heartbeat is the time between two empty messages of an event stream. The first one comes at
// once.
const heartbeat = 30 * time.Second

// readableTopics are the topics that require only the capability to read jobs.
var readableTopics = []string{"Job", "Allocation", "Deployment", "Evaluation"}

// happening is a message of the stream. The api's type lacks the namespace.
type happening struct {
	Index  uint64
	Events []event
}

type event struct {
	Topic, Type, Key, Namespace string
	Index                       uint64
}

// happened adds an event of a job to the stream. It has no events of evaluations, plans,
// allocations and nodes, which are the scheduler's. The lock is held.
func (s *Server) happened(kind string, index uint64, key jobKey) {
	s.events = append(s.events, happening{Index: index, Events: []event{{
		Topic: "Job", Type: kind, Key: key.id, Namespace: key.namespace, Index: index,
	}}})
}

// stream serves the event stream: the buffered events from an index on, then new ones, and
// heartbeats. To a caller without the capability, and for an unknown topic, it stays silent,
// without an error or heartbeat, until the caller ends it.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	namespace := query.Get("namespace")
	if namespace == "" {
		namespace = "default"
	}
	from := 0
	refused := ""
	if text := query.Get("index"); text != "" {
		var err error
		if from, err = strconv.Atoi(text); err != nil {
			refused = "Unable to parse index: " + err.Error()
		}
	}
	if r.Method != http.MethodGet {
		refused = "Invalid method"
	}
	if refused != "" {
		status := http.StatusBadRequest
		if r.Method != http.MethodGet {
			status = http.StatusMethodNotAllowed
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(refused))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	s.mu.Lock()
	allowed := s.caller(r).maySee(namespace, query["topic"])
	s.mu.Unlock()
	if !allowed {
		<-r.Context().Done()
		return
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	_, _ = fmt.Fprint(w, "{}\n")
	for next := 0; ; {
		s.mu.Lock()
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		fresh, changed := slices.Clone(s.events[next:]), s.changed
		next = len(s.events)
		s.mu.Unlock()
		for _, e := range fresh {
			if e.Index >= uint64(max(from, 0)) && wanted(e.Events[0], namespace, query["topic"]) {
				encode(w, &e)
			}
		}
		_ = flush.Flush()
		select {
		case <-changed:
		case <-beat.C:
			_, _ = fmt.Fprint(w, "{}\n")
		case <-r.Context().Done():
			return
		}
	}
}

// maySee reports whether a caller has the capabilities for topics; none means all topics.
func (c caller) maySee(namespace string, topics []string) bool {
	if len(topics) == 0 {
		return c.all
	}
	for _, topic := range topics {
		name, _, _ := strings.Cut(topic, ":")
		switch {
		case slices.Contains(readableTopics, name) && (namespace == "*" && c.anywhere("read-job") || c.may(namespace, "read-job")):
		case name == "Node" && c.nodes():
		default:
			return false
		}
	}
	return true
}

// wanted reports whether an event matches the topics, in the form TOPIC or TOPIC:KEY.
func wanted(e event, namespace string, topics []string) bool {
	if namespace != "*" && e.Namespace != namespace {
		return false
	}
	return len(topics) == 0 || slices.ContainsFunc(topics, func(topic string) bool {
		name, key, keyed := strings.Cut(topic, ":")
		return name == e.Topic && (!keyed || key == "*" || key == e.Key)
	})
}
