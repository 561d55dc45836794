package serve

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/config"
	"github.com/setpoint-dev/setpoint/cmd/internal/daemon"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/recordings"
	"github.com/setpoint-dev/setpoint/server/signin"
	"github.com/setpoint-dev/setpoint/server/telemetry"
	"github.com/setpoint-dev/setpoint/server/tracing"
	"github.com/setpoint-dev/setpoint/sources"
	"github.com/setpoint-dev/setpoint/store/memory"
	"github.com/setpoint-dev/setpoint/store/redis"
	"github.com/setpoint-dev/setpoint/web"
)

// settings are the settings of setpoint serve; list has their flags. Most of them are options of
// what they configure.
type settings struct {
	Server server.Options

	GRPCAddress, RESTAddress, AdminAddress string
	// AdminProfiles serves profiles at the admin address even if other machines reach it.
	AdminProfiles bool

	Edge    edgeSettings
	UI      bool
	UILinks []string
	SignIn  signInSettings

	Profile, Tolerance string
	OnStoreFailure     string
	// Kept is how much the store keeps, here and in Redis.
	Kept  memory.Options
	Redis redisSettings

	Sources  sources.Options
	ShedLoad bool

	Log           daemon.LogSettings
	TargetMetrics bool
	Tracing       tracing.Options

	// Notes are worth a word at the start; no setting.
	Notes []string
}

// The values of --on-store-failure.
const (
	refuseOnFailure   = "refuse"
	holdDownOnFailure = "hold-down"
)

// defaultSettings returns the defaults: those of the options, and of what only serve knows.
func defaultSettings() settings {
	s := settings{
		Server:      server.DefaultOptions(),
		GRPCAddress: "127.0.0.1:9090", RESTAddress: "127.0.0.1:8080", AdminAddress: "127.0.0.1:9091",
		UI: true, UILinks: []string{},
		SignIn:  signInSettings{Options: signin.Options{Scopes: []string{"openid"}}},
		Profile: recommender.DefaultProfile, Tolerance: "0.1",
		OnStoreFailure: refuseOnFailure,
		Kept:           memory.Options{TTL: 24 * time.Hour, LogLength: memory.DefaultLogLength, KeptLength: memory.DefaultKeptLength, FeedLength: memory.DefaultFeedLength},
		Redis:          redisSettings{Options: redis.DefaultOptions()},
		Sources:        sources.Options{URLs: []string{}},
		ShedLoad:       true,
		Log:            daemon.DefaultLog(),
		Tracing:        tracing.Options{Ratio: tracing.DefaultRatio, Version: cli.Version()},
	}
	s.Server.AllowedHosts = []string{} // not nil: so it is after an empty list of a file
	s.Server.Recommend.HistoryLimit = recommender.DefaultHistoryLimit
	s.Server.CacheBytes = 64 << 20
	s.Server.Recordings.Bytes = recordings.DayBytes
	s.Server.TargetMetrics = telemetry.DefaultMaxTargets
	s.Server.Version = cli.Version()
	return s
}

// list are the settings, in the order of help: where each goes, with its default, its flag, its
// meaning, and its bounds. validate has what concerns several of them.
func (s *settings) list() config.List {
	o := &s.Server
	return config.List{
		{Title: "Addresses", Settings: []config.Setting{
			config.String(&s.GRPCAddress, "grpc-address", "`host:port` to serve gRPC on; an empty host means all interfaces"),
			config.String(&s.RESTAddress, "rest-address", "`host:port` to serve REST and the API's description on; an empty host means all interfaces"),
			config.String(&s.AdminAddress, "admin-address", "`host:port` to serve /metrics, /healthz, /readyz, /debug/buildinfo and, on loopback, /debug/pprof/ on, without TLS or credentials; empty disables it"),
			config.Bool(&s.AdminProfiles, "admin-profiles", "serve /debug/pprof/ even if other machines can reach the admin address"),
			config.Strings(&o.AllowedHosts, "allowed-hosts", "host `names` that requests to the REST and admin addresses may use while these are on loopback, against DNS rebinding; localhost, names without a dot and IP addresses are always allowed; * allows all"),
			config.Bool(&s.Edge.Insecure, "allow-insecure-addresses", "allow addresses that other machines can reach without authentication or without TLS"),
		}},
		s.Edge.list(&o.KEDATokens),
		{Title: "Web page", Settings: append([]config.Setting{
			config.Bool(&s.UI, "ui", "serve the web page at /ui/ of the REST address; what it shows needs the same credentials as the API"),
			config.Repeated(&s.UILinks, "ui-links", "`NAME=URL` of a link that the web page shows with each target, such as 'Grafana=https://grafana.example/d/hpa?var-namespace={namespace}&var-target={target}'; {cluster}, {namespace} and {target} are replaced; once for each link, at most 8", checkPageLinks),
		}, s.SignIn.list()...)},
		{Title: "Decisions", Settings: []config.Setting{
			config.String(&s.Profile, "profile", "controller `version` to decide as where a request names none: "+strings.Join(recommender.ProfileNames(), ", "), config.OneOf(recommender.ProfileNames()...)),
			config.String(&s.Tolerance, "tolerance", "`ratio` around the target within which nothing changes, where neither behavior nor request sets one", checkTolerance),
			config.Duration(&o.Recommend.CPUInitializationPeriod, "cpu-initialization-period", "time after a pod's start during which its CPU samples count only if it is ready", config.NotNegative),
			config.Duration(&o.Recommend.InitialReadinessDelay, "initial-readiness-delay", "a pod that turns unready within this time after its start counts as never ready", config.NotNegative),
			config.Duration(&o.Recommend.DownscaleStabilization, "downscale-stabilization", "default scale-down stabilization window, where behavior sets none", config.NotNegative),
			config.Duration(&o.Recommend.UpscaleDelay, "upscale-delay", "minimum time between any change and a scale-up; only profiles cooldown and design-2015 use it", config.NotNegative),
			config.Duration(&o.Recommend.DownscaleDelay, "downscale-delay", "minimum time between any change and a scale-down; only profiles cooldown and design-2015 use it", config.NotNegative),
			config.Bool(&o.Recommend.ScaleToZero, "scale-to-zero", "allow minReplicas 0 and scaling from zero (the HPAScaleToZero feature; the profile v1.37 has it on)"),
			config.Bool(&o.AllowEvaluationTime, "allow-evaluation-time", "let requests set evaluationTime; for replays and tests"),
			config.Int(&o.MaxAttempts, "max-attempts", "attempts at one decision when other callers change the same target at once; then ABORTED", config.Positive),
		}},
		{Title: "Histories", Settings: []config.Setting{
			config.Int(&o.Recommend.HistoryLimit, "history-limit", "recommendations, and scale events per direction, kept per target (some 5 bytes each; at least 8); the default is exact for one evaluation per second and windows of an hour; beyond the limit counts may be held longer, and explanations say so", config.Within(recommender.LeastHistoryLimit, recommender.MostHistoryLimit)),
			config.Duration(&s.Kept.TTL, "history-ttl", "how long an idle target's history is kept, at least the longest window or delay (1h, --downscale-stabilization, --upscale-delay or --downscale-delay); 0 keeps it forever", config.NotNegative),
			config.Int(&o.CacheBytes, "history-cache-bytes", "bytes for caching histories, some 450 per target, which saves loads from Redis; 0 disables the cache", config.NotNegative),
			config.Duration(&o.AnswerRetention, "request-id-retention", "how long answers are remembered by request id", config.NotNegative),
			config.Int(&o.AnswerLimit, "request-id-limit", "maximum answers remembered per target", config.Positive),
			config.Int(&o.AnswerBytes, "request-id-bytes", "maximum bytes of remembered answers per target; the newest is always kept", config.Positive),
			config.Int(&s.Kept.LogLength, "decision-log-length", "unchanged decisions kept per target, as ListDecisions shows them; 0 keeps no decisions at all", config.NotNegative),
			config.Int(&s.Kept.KeptLength, "decision-log-changes", "decisions kept per target beside these: changes, failures, and one in each hour; 0 keeps them among the others", config.NotNegative),
			config.Int(&o.LoggedRepeats, "decision-log-repeats", "unchanged decisions logged per second; above this rate only changes are logged", config.NotNegative),
			config.Int(&o.Recordings.Bytes, "recording-bytes", fmt.Sprintf("bytes kept of what each target was asked, to make its decisions again (setpoint targets export); the default suffices for a day at 15 s; at least %d; 0 keeps nothing", recordings.LeastBytes), checkRecordingBytes),
			config.Duration(&o.Recordings.Age, "recording-age", "how long that is kept", config.Positive),
			config.Int(&o.Recordings.Total, "recording-total-bytes", "bytes kept of all targets together, each counted with --recording-bytes; of more targets than fit, always the same ones of each cluster are kept; 0: as much as --max-bytes-per-cluster allows", config.NotNegative),
			config.Int(&o.Recordings.Buffer, "recording-buffer-bytes", "memory for what is not yet written of it, some 700 bytes a target; of targets beyond it nothing is kept", config.NotNegative),
			config.Int(&s.Kept.FeedLength, "watch-buffer", "decisions kept for watchers (WatchDecisions), over all targets; 0 disables watching", config.NotNegative),
		}},
		{Title: "Redis", Settings: append(s.Redis.list(),
			config.String(&s.OnStoreFailure, "on-store-failure", "`policy` while Redis can't be reached: refuse calls, or hold-down: answer from the history last known, up but never down", config.OneOf(refuseOnFailure, holdDownOnFailure)),
			config.Duration(&o.MaxClockSkew, "max-clock-skew", "maximum clock difference from Redis; beyond it the instance is not ready and decides nothing; 0 means no limit", config.NotNegative),
		)},
		{Title: "Metric sources of stored specs", Settings: []config.Setting{
			config.Strings(&s.Sources.URLs, "source-urls", "`URLs` that stored specs may have metrics fetched from, without credentials, such as http://prometheus:9090 or redis://queue:6379; empty: none"),
			config.String(&s.Sources.File, "sources-file", "`file` of sources, with credentials, for the metrics of stored specs, and the namespaces that may use each; empty: none"),
		}},
		{Title: "Limits of one request", Settings: []config.Setting{
			config.Int(&o.MaxRequestBytes, "max-request-bytes", "maximum message or body, bytes", config.Positive),
			config.Int(&o.MaxHeaderBytes, "max-header-bytes", "maximum header size of one call, bytes", config.Positive),
			config.Int(&o.MaxPods, "max-pods", "maximum pods in one request", config.Positive),
			config.Int(&o.MaxMetrics, "max-metrics", "maximum metrics in one spec", config.Positive),
			config.Int(&o.MaxBatch, "max-batch", "maximum requests in one batch", config.Positive),
			config.Int(&o.MaxStreamInFlight, "max-stream-in-flight", "maximum unanswered requests per stream", config.Positive),
			config.Duration(&o.RequestTimeout, "request-timeout", "timeout of calls that set no deadline", config.Positive),
			config.Duration(&o.ShutdownDelay, "shutdown-delay", "how long shutdown goes on taking calls after /readyz says no, for load balancers that ask it now and then", config.NotNegative),
			config.Duration(&o.DrainTimeout, "drain-timeout", "how long shutdown then waits for calls in flight, and for a store that is away", config.Positive),
		}},
		{Title: "Limits of callers", Settings: []config.Setting{
			config.Int(&o.Limits.InFlight, "max-in-flight", "maximum calls in flight, all callers together; a batch counts as its requests", config.Within(1, math.MaxInt32)),
			config.Int(&o.Limits.Identity.InFlight, "max-in-flight-per-caller", "maximum calls in flight per caller, unless the policy file says otherwise; 0 means no fixed limit: authenticated callers share equally once three quarters of --max-in-flight are used", config.NotNegative),
			config.Float64(&o.Limits.Identity.Rate, "max-rate-per-caller", "maximum requests per second per caller, unless the policy file says otherwise; 0 means no limit", config.Within(0, math.MaxFloat64)),
			config.Int(&o.Limits.Identity.Burst, "max-burst-per-caller", "burst of one caller above its rate, requests; 0 means one second's worth", config.NotNegative),
			config.Int(&o.Limits.Streams, "max-streams", "maximum open streams, all callers together; one authenticated caller gets three quarters of them; 0 means no limit", config.NotNegative),
			config.Int(&o.Limits.Identity.Streams, "max-streams-per-caller", "maximum open streams per caller, unless the policy file says otherwise; 0 means no limit", config.NotNegative),
			config.Bool(&s.ShedLoad, "shed-load", "shed load when the CPUs are saturated, so that accepted calls stay fast"),
			config.Int(&o.MaxConnections, "max-connections", "maximum open connections, gRPC and REST together, and open health watches; beyond it idle ones are closed", config.Positive),
			config.Duration(&o.MaxConnectionAge, "max-connection-age", "maximum age of a gRPC connection, so that callers spread over instances; 0 means no limit", config.NotNegative),
			config.Int(&o.MaxCallsPerConnection, "max-calls-per-connection", "calls in flight on one HTTP/2 connection", config.Positive),
			config.Int(&o.ClusterTargets, "max-targets-per-cluster", "targets per cluster, and members of fleets, each, above which new ones are refused, unless the policy file says otherwise; 0 means no limit", config.NotNegative),
			config.Int(&o.ClusterBytes, "max-bytes-per-cluster", "estimated bytes of a cluster's histories, specs, observations or fleets, each, above which new targets, members that call first, and longer specs and observations are refused, unless the policy file says otherwise; 0 means no limit", config.NotNegative),
			config.Int(&o.MaxWatchers, "max-watchers", "maximum calls of WatchDecisions on this instance; 0 means no limit", config.NotNegative),
			config.Int(&o.MaxWatchersPerCaller, "max-watchers-per-caller", "maximum calls of WatchDecisions of one authenticated caller on this instance; 0 means no limit", config.NotNegative),
			config.Int(&o.MaxSimulations, "max-simulations", "simulations (Simulate) that run at once on this instance, one processor each; 0 runs none", config.NotNegative),
			config.Int(&o.MaxSimulationWork, "max-simulation-work", "maximum pod evaluations per simulation; 100 million take a few seconds, and 55 s at most", config.Positive),
		}},
		{Title: "Logs, metrics and traces", Settings: append(s.Log.List(),
			config.String((*string)(&o.LogCalls), "access-log", "`calls` logged at level info: none, failed (up to 100 a second) or all; changes of replicas, targets, specs and overrides, and internal errors, are always logged", config.OneOf(server.CallLogs()...)),
			config.Bool(&s.TargetMetrics, "target-metrics", "export metrics per target: replicas, bounds, proposal, conditions, states, turns and interval; some 12 series each"),
			config.Int(&o.TargetMetrics, "target-metrics-limit", "maximum targets with metrics of their own; further ones are only counted", config.Positive),
			config.String(&s.Tracing.Endpoint, "otlp-endpoint", "`host:port` or URL of the OpenTelemetry collector, OTLP over gRPC; the OTEL_… variables are read, too; empty disables tracing"),
			config.Bool(&s.Tracing.Insecure, "otlp-insecure", "send traces without TLS"),
			config.Float64(&s.Tracing.Ratio, "trace-ratio", "share of calls traced, 0 to 1, where the caller's traceparent does not decide", config.Within(0.0, 1)),
		)},
	}
}

func checkTolerance(text string) error {
	if _, err := conversion.Tolerance(text); err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	return nil
}

func checkPageLinks(links []string) error {
	_, err := server.ParsePageLinks(links)
	return err
}

// validate returns all that is wrong with the settings.
func (s *settings) validate() error {
	var problems config.Problems
	refuse := problems.Refuse
	s.list().Check(refuse)
	o := &s.Server
	if window := max(recommender.LongestWindow, o.Recommend.DownscaleStabilization, o.Recommend.UpscaleDelay, o.Recommend.DownscaleDelay); s.Kept.TTL > 0 && s.Kept.TTL < window {
		refuse("history-ttl", "%s is shorter than the longest stabilization window or delay that may be asked for, %s: a history would be deleted while it still affects decisions; give at least that, or 0 to keep histories", s.Kept.TTL, window)
	}
	if o.Limits.Identity.Burst > 0 && o.Limits.Identity.Rate == 0 {
		refuse("max-burst-per-caller", "%d without a rate: nothing would ever refill it; give --max-rate-per-caller", o.Limits.Identity.Burst)
	}
	if s.Tracing.Endpoint != "" {
		if err := s.Tracing.ValidateEndpoint(); err != nil {
			refuse("otlp-endpoint", "%v", err)
		}
	}
	if err := s.Sources.ValidateURLs(); err != nil {
		refuse("source-urls", "%v", err)
	}
	s.Redis.validate(refuse)
	valid := s.validateAddresses(refuse)
	s.Edge.validate(refuse, o.KEDATokens)
	if valid {
		s.Edge.validateReach(refuse, s.addresses()[:2])
	}
	s.SignIn.validate(refuse, s.UI, s.Edge.Auth.OIDCFile)
	return problems.Err()
}

// options are the server's, from settings that are valid.
func (s *settings) options() server.Options {
	o := s.Server
	o.Recommend.Profile, _ = recommender.ProfileByName(s.Profile)
	o.Recommend.Tolerance, _ = conversion.Tolerance(s.Tolerance)
	o.Limits.Shedding.Off = !s.ShedLoad
	o.HistoryTTL = s.Kept.TTL
	if s.Redis.used() {
		o.StoreKind, o.HoldDown = "redis", s.OnStoreFailure == holdDownOnFailure
	} else {
		o.CacheBytes = 0
	}
	if s.UI {
		o.Page = web.Files()
	}
	o.PageLinks, _ = server.ParsePageLinks(s.UILinks)
	if !s.TargetMetrics {
		o.TargetMetrics = 0
	}
	return o
}

// checkRecordingBytes refuses so few bytes that nothing of use would be kept.
func checkRecordingBytes(n int) error {
	if n != 0 && n < recordings.LeastBytes {
		return fmt.Errorf("must be 0, or at least %d", recordings.LeastBytes)
	}
	return nil
}
