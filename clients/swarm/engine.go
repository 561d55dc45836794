package swarm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/api/types/swarm"
	"github.com/moby/moby/client"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"
)

// Engine is a manager's engine. It is safe for concurrent use.
type Engine struct {
	options []client.Opt
	// api is negotiated for the engine as it was when it was opened.
	api atomic.Pointer[client.Client]
	// plain sends the one request that the client can't send unchanged: the client adds a tag
	// to images without one and drops unknown fields, and both make Swarm replace all tasks.
	plain *http.Client
	// requests counts requests to the engine, by purpose.
	requests *prometheus.CounterVec
}

// The purposes of requests to the engine.
const (
	callService = "service"
	callTasks   = "tasks"
	callList    = "services"
	callEvents  = "events"
	callUpdate  = "update"
	callSwarm   = "swarm"
	callNodes   = "nodes"
)

// Register registers the metric of requests to the engine.
func (e *Engine) Register(r prometheus.Registerer) error {
	for _, call := range []string{callService, callTasks, callList, callEvents, callUpdate, callSwarm, callNodes} {
		e.requests.WithLabelValues(call)
	}
	return r.Register(e.requests)
}

// asked counts a request, and returns what explains its error.
func (e *Engine) asked(call string) (explain func(error) error) {
	e.requests.WithLabelValues(call).Inc()
	began := time.Now()
	return func(err error) error { return explained(err, call, time.Since(began)) }
}

// Connect returns an engine. It opens no connection.
func Connect(options ...client.Opt) (*Engine, error) {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "setpoint_swarm_engine_requests_total", Help: "Requests to the Docker Engine, by what was asked for.",
	}, []string{"call"})
	e := &Engine{options: append(options, client.WithTraceProvider(noop.NewTracerProvider())), requests: requests}
	e.plain = &http.Client{
		Transport: &http.Transport{
			DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return e.api.Load().Dialer()(ctx) },
			MaxIdleConns:    6,
			IdleConnTimeout: 30 * time.Second,
		},
		CheckRedirect: client.CheckRedirect,
	}
	return e, e.reopen()
}

// reopen forgets the version that was negotiated, and reads certificates again: an engine that was away may be a newer
// one, which takes old versions no more.
func (e *Engine) reopen() error {
	api, err := client.New(e.options...)
	if err != nil {
		return err
	}
	if before := e.api.Swap(api); before != nil {
		_ = before.Close()
	}
	return nil
}

// Close closes idle connections.
func (e *Engine) Close() {
	_ = e.api.Load().Close()
	e.plain.CloseIdleConnections()
}

// ClusterID is the id of the swarm.
func (e *Engine) ClusterID(ctx context.Context) (string, error) {
	explain := e.asked(callSwarm)
	found, err := e.api.Load().SwarmInspect(ctx, client.SwarmInspectOptions{})
	if err != nil {
		return "", explain(err)
	}
	return found.Swarm.ID, nil
}

// errNoService means that the engine found no such service, perhaps because it could not look for it.
var errNoService = errors.New("there is no such service")

// service is a service as read.
type service struct {
	swarm.Service
	// raw is the same, with all fields that the engine knows, and version the API's that has them.
	raw     json.RawMessage
	version string
}

// inspect reads a service by name or id.
func (e *Engine) inspect(ctx context.Context, name string) (*service, error) {
	explain, api := e.asked(callService), e.api.Load()
	found, err := api.ServiceInspect(ctx, name, client.ServiceInspectOptions{})
	switch {
	// The engine takes what it does not find as a name for the beginning of an id, here of several.
	case cerrdefs.IsNotFound(err), err != nil && strings.Contains(err.Error(), " is ambiguous "):
		return nil, errNoService
	case err != nil:
		return nil, explain(err)
	}
	return &service{Service: found.Service, raw: found.Raw, version: api.ClientVersion()}, nil
}

// Services returns the services that opted in or tried to. With names, theirs begin with one of these.
func (e *Engine) Services(ctx context.Context, names ...string) ([]swarm.Service, error) {
	explain := e.asked(callList)
	filters := client.Filters{}.Add("label", EnableLabel)
	if len(names) > 0 {
		filters.Add("name", names...)
	}
	found, err := e.api.Load().ServiceList(ctx, client.ServiceListOptions{Filters: filters})
	if err != nil {
		return nil, explain(err)
	}
	var enabled []swarm.Service
	for _, s := range found.Items {
		if Enabled(s.Spec.Labels) {
			enabled = append(enabled, s)
		}
	}
	return enabled, nil
}

// tasks returns the tasks of a service, including ended ones that Swarm still lists.
func (e *Engine) tasks(ctx context.Context, serviceID string) ([]swarm.Task, error) {
	explain := e.asked(callTasks)
	found, err := e.api.Load().TaskList(ctx, client.TaskListOptions{Filters: client.Filters{}.Add("service", serviceID)})
	return found.Items, explain(err)
}

// events returns the events of services, until the context ends.
func (e *Engine) events(ctx context.Context) (<-chan events.Message, <-chan error) {
	e.asked(callEvents)
	stream := e.api.Load().Events(ctx, client.EventsListOptions{Filters: client.Filters{}.Add("type", string(events.ServiceEventType))})
	return stream.Messages, stream.Err
}

// errOutOfSequence means that a service was changed after it was read.
var errOutOfSequence = errors.New("the service was changed meanwhile")

// scale writes a count with the rest of the spec as read; errOutOfSequence if the service has
// another version by now.
func (e *Engine) scale(ctx context.Context, s *service, replicas int32) error {
	spec, err := withReplicas(s.raw, replicas)
	if err != nil {
		return err
	}
	at := url.URL{
		Scheme: "http", Host: client.DummyHost, Path: "/v" + s.version + "/services/" + s.ID + "/update",
		RawQuery: url.Values{"version": {strconv.FormatUint(s.Version.Index, 10)}}.Encode(),
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), bytes.NewReader(spec))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	explain := e.asked(callUpdate)
	response, err := e.plain.Do(req)
	if err != nil {
		return explain(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if response.StatusCode < 300 {
		return nil // written, whatever the warnings
	}
	if err != nil {
		return explain(err)
	}
	return explain(refusal(response, body))
}

// refusal converts an error answer of the engine.
func refusal(response *http.Response, body []byte) error {
	var said struct{ Message string }
	if err := json.Unmarshal(body, &said); err != nil || said.Message == "" {
		said.Message = "the engine answers " + response.Status
	}
	switch {
	// It has no status code of its own.
	case strings.Contains(said.Message, "update out of sequence"):
		return errOutOfSequence
	case response.StatusCode == http.StatusServiceUnavailable:
		return errors.New(said.Message + needsManager)
	}
	return errors.New(said.Message)
}

// withReplicas returns the engine's spec of a service with another count and nothing else
// changed.
func withReplicas(raw json.RawMessage, replicas int32) ([]byte, error) {
	var parsed struct{ Spec map[string]json.RawMessage }
	var mode, replicated map[string]json.RawMessage
	err := json.Unmarshal(raw, &parsed)
	if err == nil {
		err = json.Unmarshal(parsed.Spec["Mode"], &mode)
	}
	if err == nil {
		err = json.Unmarshal(mode["Replicated"], &replicated)
	}
	if err != nil {
		return nil, fmt.Errorf("the service's spec can't be read: %w", err)
	}
	if replicated == nil {
		replicated = map[string]json.RawMessage{}
	}
	replicated["Replicas"] = strconv.AppendInt(nil, int64(replicas), 10)
	if mode["Replicated"], err = json.Marshal(replicated); err != nil {
		return nil, err
	}
	if parsed.Spec["Mode"], err = json.Marshal(mode); err != nil {
		return nil, err
	}
	return json.Marshal(parsed.Spec)
}

// needsManager is the advice about an engine that is not a manager's.
const needsManager = " (the agent needs the engine of a manager)"

// needsQuorum is the advice where the managers can decide nothing.
const needsQuorum = " (bring more than half of the managers back; if they are lost: docker swarm init --force-new-cluster on one that is left)"

// explained adds advice to an error of the engine, and words one of which it gave none: the client has no more than an address.
func explained(err error, call string, after time.Duration) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the engine gave no answer for %s (asked for: %s): if docker node ls hangs as well, too few managers are up, or this engine hangs and has to be restarted: %w",
			after.Round(100*time.Millisecond), call, context.DeadlineExceeded)
	case strings.Contains(err.Error(), "not have a leader"):
		return fmt.Errorf("%w%s", err, needsQuorum)
	case cerrdefs.IsUnavailable(err):
		return fmt.Errorf("%w%s", err, needsManager)
	}
	return err
}
