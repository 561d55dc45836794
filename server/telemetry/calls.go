package telemetry

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// lastCode is the last of gRPC's codes.
const lastCode = codes.Unauthenticated

// durations are buckets from some hundred microseconds to the server's time limit of a
// call.
var durations = [numDurations]float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

const numDurations = 16

// OtherMethod is the label of calls to methods that were not passed to NewCalls.
const OtherMethod = "other"

// MethodInfo names a method.
type MethodInfo struct {
	// FullMethod is gRPC's name of it, /package.Service/Method.
	FullMethod string
	// Stream reports whether it is a stream.
	Stream bool
	// Audited reports whether each successful call is logged.
	Audited bool
}

// MethodsOf returns the methods of all services, by name.
func MethodsOf(services map[string]grpc.ServiceInfo) []MethodInfo {
	var methods []MethodInfo
	for _, service := range slices.Sorted(maps.Keys(services)) {
		for _, m := range services[service].Methods {
			methods = append(methods, MethodInfo{FullMethod: "/" + service + "/" + m.Name, Stream: m.IsClientStream || m.IsServerStream})
		}
	}
	return methods
}

// Calls counts calls by method.
type Calls struct {
	requests, messages *prometheus.CounterVec
	seconds            *prometheus.HistogramVec
	inFlight, streams  *prometheus.GaugeVec
	messageSeconds     prometheus.Histogram
	rest               *prometheus.CounterVec

	methods map[string]*Method // by full name
	other   *Method
	classes [6]prometheus.Counter // of HTTP's codes, by their first digit
}

// Method counts the calls of one method.
type Method struct {
	// Name is the label: the full name without its first slash.
	Name string
	// Audited is as in MethodInfo.
	Audited bool
	stream  bool
	codes   [lastCode + 1]prometheus.Counter
	// open counts the calls in flight, or open streams.
	open prometheus.Gauge
	// seconds is nil for streams, received and sent for all others.
	seconds        prometheus.Observer
	received, sent prometheus.Counter
}

// NewCalls returns counters for the methods, and one for all others.
func NewCalls(methods ...MethodInfo) *Calls {
	c := &Calls{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "setpoint_requests_total", Help: "Calls answered over gRPC and REST, streams when they end; calls refused before their method was known are not included.",
		}, []string{"method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "setpoint_request_duration_seconds", Help: "Duration of unary calls in the server.",
			Buckets: durations[:],
		}, []string{"method"}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "setpoint_requests_in_flight", Help: "Unary calls in flight.",
		}, []string{"method"}),
		streams: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "setpoint_streams_open", Help: "Open streams.",
		}, []string{"method"}),
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "setpoint_stream_messages_total", Help: "Stream messages, by direction.",
		}, []string{"method", "direction"}),
		messageSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "setpoint_stream_message_duration_seconds", Help: "Time from reading a StreamRecommend request to its answer.",
			Buckets: durations[:],
		}),
		rest: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "setpoint_rest_requests_total", Help: "REST calls answered, by HTTP status class; those that reached an RPC are also in setpoint_requests_total.",
		}, []string{"code"}),
		methods: make(map[string]*Method, len(methods)),
	}
	for _, m := range methods {
		method := c.method(strings.TrimPrefix(m.FullMethod, "/"), m.Stream)
		method.Audited = m.Audited
		c.methods[m.FullMethod] = method
	}
	c.other = c.method(OtherMethod, false)
	for digit, class := range map[int]string{1: "1xx", 2: "2xx", 3: "3xx", 4: "4xx", 5: "5xx"} {
		c.classes[digit] = c.rest.WithLabelValues(class)
	}
	return c
}

func (c *Calls) method(name string, stream bool) *Method {
	m := &Method{Name: name, stream: stream}
	for code := range m.codes {
		m.codes[code] = c.requests.WithLabelValues(name, codes.Code(code).String())
	}
	if stream {
		m.open = c.streams.WithLabelValues(name)
		m.received, m.sent = c.messages.WithLabelValues(name, "received"), c.messages.WithLabelValues(name, "sent")
	} else {
		m.open, m.seconds = c.inFlight.WithLabelValues(name), c.seconds.WithLabelValues(name)
	}
	return m
}

// Of returns the counters of a method, by its full name.
func (c *Calls) Of(fullMethod string) *Method {
	if m := c.methods[fullMethod]; m != nil {
		return m
	}
	return c.other
}

// Begin counts the start of a call or a stream.
func (m *Method) Begin() { m.open.Inc() }

// End counts its end.
func (m *Method) End(code codes.Code, took time.Duration) {
	m.open.Dec()
	m.codes[known(code)].Inc()
	if m.seconds != nil {
		m.seconds.Observe(took.Seconds())
	}
}

// Refused counts a call that was refused before it began.
func (m *Method) Refused(code codes.Code) { m.codes[known(code)].Inc() }

func known(code codes.Code) codes.Code {
	if code > lastCode {
		return codes.Unknown
	}
	return code
}

// Received counts a received message of a stream.
func (m *Method) Received() {
	if m.received != nil {
		m.received.Inc()
	}
}

// Sent counts a sent message of a stream.
func (m *Method) Sent() {
	if m.sent != nil {
		m.sent.Inc()
	}
}

// Message counts a streamed request with its response.
func (c *Calls) Message(took time.Duration) { c.messageSeconds.Observe(took.Seconds()) }

// REST counts a REST call by its HTTP status.
func (c *Calls) REST(httpCode int) {
	if class := httpCode / 100; class >= 1 && class < len(c.classes) {
		c.classes[class].Inc()
	}
}

// Collectors returns the collectors to register.
func (c *Calls) Collectors() []prometheus.Collector {
	return []prometheus.Collector{c.requests, c.seconds, c.inFlight, c.streams, c.messages, c.messageSeconds, c.rest}
}
