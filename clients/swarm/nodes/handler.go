package nodes

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-dev/setpoint/internal/signed"
	"github.com/setpoint-dev/setpoint/internal/typed"
)

// Path is the path of reports.
const Path = "/v1/usage"

// MaxSkew bounds the error of a node's clock if reports are signed: a recorded report can be
// replayed to a restarted agent for no longer than that.
const MaxSkew = time.Minute

// Handler receives reports. It serves Path, by POST.
type Handler struct {
	store *Store
	// secrets returns the signing secrets; nil: certificates from the files authenticate nodes.
	secrets func() ([][]byte, error)
	files   TLS
	now     func() time.Time
	reading chan struct{}
	reports *prometheus.CounterVec
}

// maxReading bounds the bodies read concurrently, from authenticated callers.
const maxReading = 32

// Outcomes of reports.
const (
	taken           = "taken"
	unauthenticated = "unauthenticated"
	wrongClock      = "clock"
	replayed        = "replayed"
	invalid         = "invalid"
	busy            = "busy"
)

// NewHandler returns a handler for a store. secrets returns the secrets that sign reports; nil:
// the connection's certificate, which the server verified with the files, says which node a
// report is from, as long as it is valid.
func NewHandler(store *Store, secrets func() ([][]byte, error), files TLS, r prometheus.Registerer) (*Handler, error) {
	h := &Handler{store: store, secrets: secrets, files: files, now: time.Now, reading: make(chan struct{}, maxReading)}
	h.reports = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "setpoint_swarm_reports_total", Help: "Reports of nodes about the usage of their tasks, by what came of them.",
	}, []string{"outcome"})
	for _, outcome := range []string{taken, unauthenticated, wrongClock, replayed, invalid, busy} {
		h.reports.WithLabelValues(outcome)
	}
	reporting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "setpoint_swarm_nodes_reporting", Help: "Nodes that have reported usage lately.",
	}, func() float64 { return float64(store.Reporting(h.now())) })
	if r == nil {
		return h, nil
	}
	return h, errors.Join(r.Register(h.reports), r.Register(reporting))
}

// refused is a refused report.
type refused struct {
	status  int
	outcome string
	err     error
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.URL.Path != Path {
		http.Error(w, "reports are sent by POST to "+Path, http.StatusNotFound)
		return
	}
	if no := h.take(w, r); no != nil {
		h.reports.WithLabelValues(no.outcome).Inc()
		w.Header().Set("Connection", "close") // the rest of the body is not read
		http.Error(w, no.err.Error(), no.status)
		return
	}
	h.reports.WithLabelValues(taken).Inc()
	w.WriteHeader(http.StatusNoContent)
}

func (h *Handler) take(w http.ResponseWriter, r *http.Request) *refused {
	node := r.Header.Get(nodeHeader)
	sent, err := time.Parse(time.RFC3339Nano, r.Header.Get(timeHeader))
	switch {
	case !isID(node) || err != nil:
		return &refused{http.StatusBadRequest, invalid, fmt.Errorf("the headers %s and %s must have the id of the node and the RFC 3339 time of the report", nodeHeader, timeHeader)}
	case r.ContentLength < 0 || r.ContentLength > MaxReportBytes:
		return &refused{http.StatusRequestEntityTooLarge, invalid, fmt.Errorf("the report must have a Content-Length of at most %d bytes", MaxReportBytes)}
	}
	if no := h.authenticate(r, node, sent); no != nil {
		return no
	}
	// A node's own connection can't be used by others: the order of arrival counts, even if the
	// node's clock was set back.
	ordered := h.secrets != nil
	if ordered {
		if err := h.store.Fresh(node, sent); err != nil {
			return &refused{http.StatusConflict, replayed, err}
		}
	}
	select {
	case h.reading <- struct{}{}:
		defer func() { <-h.reading }()
	default:
		return &refused{http.StatusServiceUnavailable, busy, errors.New("too many reports at once")}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxReportBytes))
	if err != nil {
		return &refused{http.StatusBadRequest, invalid, errors.New("the report can't be read")}
	}
	if h.secrets != nil && !signed.Equal(signed.Digest(body), r.Header.Get(digestHeader)) {
		return &refused{http.StatusForbidden, unauthenticated, errUnsigned}
	}
	report, err := ParseReport(body)
	if err == nil && (report.Node != node || !report.At.Equal(sent)) {
		err = errors.New("the report names another node or time than its headers")
	}
	if err == nil {
		err = h.store.checkWindows(report)
	}
	if err != nil {
		return &refused{http.StatusBadRequest, invalid, err}
	}
	switch err := h.store.Take(report, h.now(), ordered); {
	case errors.Is(err, ErrReplayed):
		return &refused{http.StatusConflict, replayed, err}
	case err != nil:
		return &refused{http.StatusServiceUnavailable, busy, err}
	}
	return nil
}

// authenticate refuses senders other than the node, without reading the body.
func (h *Handler) authenticate(r *http.Request, node string, sent time.Time) *refused {
	if h.secrets == nil {
		if !isNode(r.TLS, node) {
			return &refused{http.StatusForbidden, unauthenticated, errOtherNode}
		}
		if err := h.files.still(r.TLS, h.now()); err != nil {
			return &refused{http.StatusForbidden, unauthenticated, fmt.Errorf("the certificate is no longer valid: %s", typed.Shorten(err.Error(), maxQuoted))}
		}
		return nil
	}
	secrets, err := h.secrets()
	if err != nil {
		return &refused{http.StatusServiceUnavailable, unauthenticated, errors.New("the agent can't read its secret")}
	}
	if !isSigned(secrets, r.Header) {
		return &refused{http.StatusForbidden, unauthenticated, errUnsigned}
	}
	if ahead := sent.Sub(h.now()); ahead.Abs() > MaxSkew {
		return &refused{http.StatusForbidden, wrongClock, &clockError{ahead, MaxSkew}}
	}
	return nil
}
