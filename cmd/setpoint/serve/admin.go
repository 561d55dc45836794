package serve

import (
	"context"
	"fmt"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/cmd/internal/buildmetric"
	"github.com/setpoint-dev/setpoint/cmd/internal/daemon"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/store/redis"
)

// newRegistry returns a registry with the metrics of the process.
func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewBuildInfoCollector(), buildmetric.New(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// serveAdmin serves metrics and health on the listener, nil for not at all, until the
// function that it returns is called: after the service has drained, so that its end
// can be watched. Profiles are served wherever the listener is if that is wanted.
func serveAdmin(listener net.Listener, srv *server.Server, metrics *prometheus.Registry, profiles bool, hosts []string, log *zap.Logger) (stop func()) {
	pages := daemon.Routes(adminPages(srv.Health(), metrics))
	if profiles {
		return daemon.ServeProfiles(listener, pages, hosts, log)
	}
	return daemon.ServePages(listener, pages, hosts, log)
}

// adminPages are all but the index.
func adminPages(health http.Handler, metrics *prometheus.Registry) []daemon.Page {
	return append([]daemon.Page{
		daemon.MetricsPage(metrics, metrics),
		{Path: "/healthz", About: "whether the process lives", Handler: health},
		{Path: "/readyz", About: "whether it is to be sent calls", Handler: health},
	}, daemon.DebugPages()...)
}

// redisCollector turns the store's counts into metrics.
type redisCollector struct{ store *redis.Store }

// redisMetric is one of these metrics.
type redisMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*redis.Stats) float64
}

var redisMetrics = []redisMetric{
	redisCounter("round_trips_total", "Round trips to Redis: single commands and pipelines.", func(s *redis.Stats) uint64 { return s.RoundTrips }),
	redisCounter("commands_total", "Commands sent to Redis.", func(s *redis.Stats) uint64 { return s.Commands }),
	redisCounter("retries_total", "Redis commands retried.", func(s *redis.Stats) uint64 { return s.Retries }),
	redisCounter("conflicts_total", "Swaps lost to another writer.", func(s *redis.Stats) uint64 { return s.Conflicts }),
	redisCounter("failures_total", "Redis commands that failed after all retries.", func(s *redis.Stats) uint64 { return s.Failures }),
	redisCounter("script_loads_total", "Scripts sent in full because a Redis node did not have them cached.", func(s *redis.Stats) uint64 { return s.ScriptLoads }),
	redisCounter("purged_total", "Expired targets removed from the index.", func(s *redis.Stats) uint64 { return s.Purged }),
	redisCounter("dials_total", "Attempts to connect to Redis.", func(s *redis.Stats) uint64 { return s.Dials }),
	redisCounter("pool_timeouts_total", "Timeouts waiting for a connection of the pool.", func(s *redis.Stats) uint64 { return s.PoolTimeouts }),
	redisCounter("breaker_trips_total", "Times a Redis node's circuit breaker opened.", func(s *redis.Stats) uint64 { return s.BreakerTrips }),
	redisGauge("breakers_open", "Redis nodes whose circuit breaker is open.", func(s *redis.Stats) int { return s.BreakersOpen }),
	redisGauge("connections", "Open connections to Redis.", func(s *redis.Stats) int { return s.Connections }),
	redisGauge("connections_idle", "Idle connections to Redis.", func(s *redis.Stats) int { return s.Idle }),
}

func redisCounter(name, help string, value func(*redis.Stats) uint64) redisMetric {
	return redisMetric{redisDesc(name, help), prometheus.CounterValue, func(s *redis.Stats) float64 { return float64(value(s)) }}
}

func redisGauge(name, help string, value func(*redis.Stats) int) redisMetric {
	return redisMetric{redisDesc(name, help), prometheus.GaugeValue, func(s *redis.Stats) float64 { return float64(value(s)) }}
}

func redisDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("setpoint_redis_"+name, help, nil, nil)
}

// Describe implements prometheus.Collector.
func (redisCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, m := range redisMetrics {
		descs <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c redisCollector) Collect(metrics chan<- prometheus.Metric) {
	stats := c.store.Stats()
	for _, m := range redisMetrics {
		metrics <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&stats))
	}
}

// driverLog receives the Redis client's log lines about single connections. Callers of the
// client report final failures.
type driverLog struct{ log *zap.Logger }

// Printf implements go-redis' logger.
func (l driverLog) Printf(_ context.Context, format string, v ...any) {
	if l.log.Core().Enabled(zap.DebugLevel) {
		l.log.Debug("redis: " + redis.WithoutArguments(fmt.Sprintf(format, v...)))
	}
}
