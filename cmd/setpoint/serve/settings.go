package serve

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/zap/zapcore"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/store/memory"
	"github.com/setpoint-dev/setpoint/web"
)

// settings are the settings of setpoint serve. Each has a flag, a variable SETPOINT_… and a key
// in the config file.
type settings struct {
	GRPCAddress string
	RESTAddress string
	// AdminAddress serves metrics and health, for operators.
	AdminAddress string
	// AdminProfiles serves profiles there also if other machines reach it.
	AdminProfiles bool
	// AllowedHosts are host names accepted by addresses on loopback.
	AllowedHosts []string
	// UI serves the web page, and SignIn configures its users' sign-in with an issuer.
	UI     bool
	SignIn signInSettings

	LogLevel  string
	LogFormat string

	Profile                 string
	Tolerance               string
	CPUInitializationPeriod time.Duration
	InitialReadinessDelay   time.Duration
	DownscaleStabilization  time.Duration
	UpscaleDelay            time.Duration
	DownscaleDelay          time.Duration
	ScaleToZero             bool
	AllowEvaluationTime     bool

	Edge    edgeSettings
	Observe observeSettings
	Limits  limitSettings

	Redis             redisSettings
	OnStoreFailure    string
	HistoryCacheBytes int
	HistoryLimit      int
	HistoryTTL        time.Duration
	DecisionLogLength int
	LoggedRepeats     int
	WatchBuffer       int
	MaxWatchers       int
	CallersWatchers   int
	MaxSimulations    int
	SimulationWork    int
	AnswerRetention   time.Duration
	AnswerLimit       int
	AnswerBytes       int
	MaxClockSkew      time.Duration

	// SourceURLs and SourcesFile configure the metric sources of stored specs.
	SourceURLs  []string
	SourcesFile string

	MaxRequestBytes   int
	MaxPods           int
	MaxMetrics        int
	MaxBatch          int
	MaxStreamInFlight int
	MaxAttempts       int
	RequestTimeout    time.Duration
	DrainTimeout      time.Duration

	// Notes are worth a word at the start; no setting.
	Notes []string
}

// The values of --on-store-failure.
const (
	refuseOnFailure   = "refuse"
	holdDownOnFailure = "hold-down"
)

// defaultSettings returns the defaults of all settings.
func defaultSettings() settings {
	o := server.DefaultOptions()
	return settings{
		GRPCAddress:             "127.0.0.1:9090",
		RESTAddress:             "127.0.0.1:8080",
		AdminAddress:            "127.0.0.1:9091",
		AllowedHosts:            []string{}, // not nil: so it is after an empty list of a file
		UI:                      true,
		SignIn:                  defaultSignInSettings(),
		LogLevel:                "info",
		LogFormat:               "json",
		Observe:                 defaultObserveSettings(),
		Profile:                 recommender.V136.Name(),
		Tolerance:               "0.1",
		CPUInitializationPeriod: o.Recommend.CPUInitializationPeriod,
		InitialReadinessDelay:   o.Recommend.InitialReadinessDelay,
		DownscaleStabilization:  o.Recommend.DownscaleStabilization,
		UpscaleDelay:            o.Recommend.UpscaleDelay,
		DownscaleDelay:          o.Recommend.DownscaleDelay,
		Limits:                  defaultLimitSettings(),
		Redis:                   defaultRedisSettings(),
		OnStoreFailure:          refuseOnFailure,
		HistoryCacheBytes:       64 << 20,
		HistoryLimit:            recommender.DefaultHistoryLimit,
		HistoryTTL:              24 * time.Hour,
		DecisionLogLength:       100,
		LoggedRepeats:           o.LoggedRepeats,
		WatchBuffer:             memory.DefaultFeedLength,
		MaxWatchers:             o.MaxWatchers,
		CallersWatchers:         o.MaxWatchersPerCaller,
		MaxSimulations:          1,
		SimulationWork:          o.MaxSimulationWork,
		AnswerRetention:         o.AnswerRetention,
		AnswerLimit:             o.AnswerLimit,
		AnswerBytes:             o.AnswerBytes,
		MaxClockSkew:            o.MaxClockSkew,
		SourceURLs:              []string{},
		MaxRequestBytes:         o.MaxRequestBytes,
		MaxPods:                 o.MaxPods,
		MaxMetrics:              o.MaxMetrics,
		MaxBatch:                o.MaxBatch,
		MaxStreamInFlight:       o.MaxStreamInFlight,
		MaxAttempts:             o.MaxAttempts,
		RequestTimeout:          o.RequestTimeout,
		DrainTimeout:            o.DrainTimeout,
	}
}

// bind adds a flag for each setting; the current values are the defaults.
func (s *settings) bind(flags *pflag.FlagSet) {
	flags.StringVar(&s.GRPCAddress, "grpc-address", s.GRPCAddress, "`host:port` to serve gRPC on; an empty host means all interfaces")
	flags.StringVar(&s.RESTAddress, "rest-address", s.RESTAddress, "`host:port` to serve REST and the API's description on; an empty host means all interfaces")
	flags.StringVar(&s.AdminAddress, "admin-address", s.AdminAddress, "`host:port` to serve /metrics, /healthz, /readyz, /debug/buildinfo and, on loopback, /debug/pprof/ on, without TLS or credentials; empty disables it")
	flags.BoolVar(&s.AdminProfiles, "admin-profiles", s.AdminProfiles, "serve /debug/pprof/ even if other machines can reach the admin address")
	flags.StringSliceVar(&s.AllowedHosts, "allowed-hosts", s.AllowedHosts, "host `names` that requests to the REST and admin addresses may use while these are on loopback, against DNS rebinding; localhost, names without a dot and IP addresses are always allowed; * allows all")
	flags.BoolVar(&s.UI, "ui", s.UI, "serve the web page at /ui/ of the REST address; what it shows needs the same credentials as the API")
	s.SignIn.bind(flags)
	flags.StringVar(&s.LogLevel, "log-level", s.LogLevel, "least severe `level` that is logged: debug, info, warn or error")
	flags.StringVar(&s.LogFormat, "log-format", s.LogFormat, "`form` of log lines: json, or console for people")
	flags.StringVar(&s.Profile, "profile", s.Profile, "controller `version` to decide as where a request names none: "+strings.Join(recommender.ProfileNames(), ", "))
	flags.StringVar(&s.Tolerance, "tolerance", s.Tolerance, "`ratio` around the target within which nothing changes, where neither behavior nor request sets one")
	flags.DurationVar(&s.CPUInitializationPeriod, "cpu-initialization-period", s.CPUInitializationPeriod, "time after a pod's start during which its CPU samples count only if it is ready")
	flags.DurationVar(&s.InitialReadinessDelay, "initial-readiness-delay", s.InitialReadinessDelay, "a pod that turns unready within this time after its start counts as never ready")
	flags.DurationVar(&s.DownscaleStabilization, "downscale-stabilization", s.DownscaleStabilization, "default scale-down stabilization window, where behavior sets none")
	flags.DurationVar(&s.UpscaleDelay, "upscale-delay", s.UpscaleDelay, "minimum time between any change and a scale-up; only profiles cooldown and design-2015 use it")
	flags.DurationVar(&s.DownscaleDelay, "downscale-delay", s.DownscaleDelay, "minimum time between any change and a scale-down; only profiles cooldown and design-2015 use it")
	flags.BoolVar(&s.ScaleToZero, "scale-to-zero", s.ScaleToZero, "allow minReplicas 0 and scaling from zero (the HPAScaleToZero feature; the profile v1.37 has it on)")
	flags.BoolVar(&s.AllowEvaluationTime, "allow-evaluation-time", s.AllowEvaluationTime, "let requests set evaluationTime; for replays and tests")
	s.Edge.bind(flags)
	s.Observe.bind(flags)
	s.Limits.bind(flags)
	s.Redis.bind(flags)
	flags.StringVar(&s.OnStoreFailure, "on-store-failure", s.OnStoreFailure, "`policy` while Redis can't be reached: refuse calls, or hold-down: answer from the history last known, up but never down")
	flags.IntVar(&s.HistoryCacheBytes, "history-cache-bytes", s.HistoryCacheBytes, "bytes for caching histories, some 450 per target, which saves loads from Redis; 0 disables the cache")
	flags.IntVar(&s.HistoryLimit, "history-limit", s.HistoryLimit, "recommendations, and scale events per direction, kept per target (some 5 bytes each; at least 8); the default is exact for one evaluation per second and windows of an hour; beyond the limit counts may be held longer, and explanations say so")
	flags.DurationVar(&s.HistoryTTL, "history-ttl", s.HistoryTTL, "how long an idle target's history is kept, at least the longest window or delay (1h, --downscale-stabilization, --upscale-delay or --downscale-delay); 0 keeps it forever")
	flags.IntVar(&s.DecisionLogLength, "decision-log-length", s.DecisionLogLength, "decisions kept per target, as ListDecisions shows them; 0 keeps none")
	flags.IntVar(&s.LoggedRepeats, "decision-log-repeats", s.LoggedRepeats, "unchanged decisions logged per second; above this rate only changes are logged")
	flags.IntVar(&s.WatchBuffer, "watch-buffer", s.WatchBuffer, "decisions kept for watchers (WatchDecisions), over all targets; 0 disables watching")
	flags.IntVar(&s.MaxWatchers, "max-watchers", s.MaxWatchers, "maximum calls of WatchDecisions on this instance; 0 means no limit")
	flags.IntVar(&s.CallersWatchers, "max-watchers-per-caller", s.CallersWatchers, "maximum calls of WatchDecisions of one authenticated caller on this instance; 0 means no limit")
	flags.IntVar(&s.MaxSimulations, "max-simulations", s.MaxSimulations, "simulations (Simulate) that run at once on this instance, one processor each; 0 runs none")
	flags.IntVar(&s.SimulationWork, "max-simulation-work", s.SimulationWork, "maximum work of one simulation, in looks at a simulated pod; 100 million take some seconds, and 55 s at most")
	flags.DurationVar(&s.AnswerRetention, "request-id-retention", s.AnswerRetention, "how long answers are remembered by request id")
	flags.IntVar(&s.AnswerLimit, "request-id-limit", s.AnswerLimit, "maximum answers remembered per target")
	flags.IntVar(&s.AnswerBytes, "request-id-bytes", s.AnswerBytes, "maximum bytes of remembered answers per target; the newest is always kept")
	flags.DurationVar(&s.MaxClockSkew, "max-clock-skew", s.MaxClockSkew, "maximum clock difference from Redis; beyond it the instance is not ready and decides nothing; 0 means no limit")
	flags.StringSliceVar(&s.SourceURLs, "source-urls", s.SourceURLs, "`URLs` that stored specs may have metrics fetched from, without credentials, such as http://prometheus:9090 or redis://queue:6379; empty: none")
	flags.StringVar(&s.SourcesFile, "sources-file", s.SourcesFile, "`file` of sources, with credentials, for the metrics of stored specs, and the namespaces that may use each; empty: none")
	flags.IntVar(&s.MaxRequestBytes, "max-request-bytes", s.MaxRequestBytes, "maximum message or body, bytes")
	flags.IntVar(&s.MaxPods, "max-pods", s.MaxPods, "maximum pods in one request")
	flags.IntVar(&s.MaxMetrics, "max-metrics", s.MaxMetrics, "maximum metrics in one spec")
	flags.IntVar(&s.MaxBatch, "max-batch", s.MaxBatch, "maximum requests in one batch")
	flags.IntVar(&s.MaxStreamInFlight, "max-stream-in-flight", s.MaxStreamInFlight, "maximum unanswered requests per stream")
	flags.IntVar(&s.MaxAttempts, "max-attempts", s.MaxAttempts, "attempts at one decision when other callers change the same target at once; then ABORTED")
	flags.DurationVar(&s.RequestTimeout, "request-timeout", s.RequestTimeout, "timeout of calls that set no deadline")
	flags.DurationVar(&s.DrainTimeout, "drain-timeout", s.DrainTimeout, "how long shutdown waits for calls in flight")
}

// validate returns all that is wrong with the settings.
func (s *settings) validate() error {
	var problems []error
	refuse := func(flag, format string, args ...any) {
		problems = append(problems, fmt.Errorf("--"+flag+": "+format, args...))
	}
	if _, err := zapcore.ParseLevel(s.LogLevel); err != nil {
		refuse("log-level", "%q is not one of debug, info, warn, error", s.LogLevel)
	}
	if s.LogFormat != "json" && s.LogFormat != "console" {
		refuse("log-format", "%q is neither json nor console", s.LogFormat)
	}
	if _, ok := recommender.ProfileByName(s.Profile); !ok {
		refuse("profile", "%q is not one of %q", s.Profile, recommender.ProfileNames())
	}
	if _, err := conversion.Tolerance(s.Tolerance); err != nil {
		refuse("tolerance", "%q: %v", s.Tolerance, err)
	}
	for flag, d := range map[string]time.Duration{
		"cpu-initialization-period": s.CPUInitializationPeriod,
		"initial-readiness-delay":   s.InitialReadinessDelay,
		"downscale-stabilization":   s.DownscaleStabilization,
		"upscale-delay":             s.UpscaleDelay,
		"downscale-delay":           s.DownscaleDelay,
		"history-ttl":               s.HistoryTTL,
		"max-clock-skew":            s.MaxClockSkew,
		"request-id-retention":      s.AnswerRetention,
	} {
		if d < 0 {
			refuse(flag, "%s is negative", d)
		}
	}
	for flag, d := range map[string]time.Duration{"request-timeout": s.RequestTimeout, "drain-timeout": s.DrainTimeout} {
		if d <= 0 {
			refuse(flag, "%s is not above 0", d)
		}
	}
	for flag, n := range map[string]int{
		"request-id-limit": s.AnswerLimit, "request-id-bytes": s.AnswerBytes,
		"max-request-bytes": s.MaxRequestBytes, "max-pods": s.MaxPods, "max-metrics": s.MaxMetrics, "max-batch": s.MaxBatch,
		"max-stream-in-flight": s.MaxStreamInFlight, "max-attempts": s.MaxAttempts,
		"max-simulation-work": s.SimulationWork,
	} {
		if n <= 0 {
			refuse(flag, "%d is not above 0", n)
		}
	}
	if s.HistoryLimit < recommender.LeastHistoryLimit || s.HistoryLimit > recommender.MostHistoryLimit {
		refuse("history-limit", "%d is not from %d to %d", s.HistoryLimit, recommender.LeastHistoryLimit, recommender.MostHistoryLimit)
	}
	if window := max(recommender.LongestWindow, s.DownscaleStabilization, s.UpscaleDelay, s.DownscaleDelay); s.HistoryTTL > 0 && s.HistoryTTL < window {
		refuse("history-ttl", "%s is shorter than the longest stabilization window or delay that may be asked for, %s: a history would be deleted while it still affects decisions; give at least that, or 0 to keep histories", s.HistoryTTL, window)
	}
	if s.OnStoreFailure != refuseOnFailure && s.OnStoreFailure != holdDownOnFailure {
		refuse("on-store-failure", "%q is neither %s nor %s", s.OnStoreFailure, refuseOnFailure, holdDownOnFailure)
	}
	for flag, n := range map[string]int{"watch-buffer": s.WatchBuffer, "max-watchers": s.MaxWatchers, "max-watchers-per-caller": s.CallersWatchers, "max-simulations": s.MaxSimulations} {
		if n < 0 {
			refuse(flag, "%d is negative", n)
		}
	}
	if s.LoggedRepeats < 0 {
		refuse("decision-log-repeats", "%d is negative", s.LoggedRepeats)
	}
	if s.HistoryCacheBytes < 0 {
		refuse("history-cache-bytes", "%d is negative", s.HistoryCacheBytes)
	}
	s.Redis.validate(refuse)
	s.Limits.validate(refuse)
	s.Observe.validate(refuse)
	reached := map[string]string{"grpc-address": s.GRPCAddress, "rest-address": s.RESTAddress}
	if !s.validateAddresses(refuse) {
		reached = nil // an invalid address is reported elsewhere
	}
	s.Edge.validate(refuse, reached)
	s.SignIn.validate(refuse, s.UI, s.Edge.OIDCFile)
	if s.DecisionLogLength < 0 {
		refuse("decision-log-length", "%d is negative", s.DecisionLogLength)
	}
	return errors.Join(problems...)
}

// options are the server's, from settings that are valid.
func (s *settings) options() server.Options {
	o := server.DefaultOptions()
	o.Recommend.Profile, _ = recommender.ProfileByName(s.Profile)
	o.Recommend.Tolerance, _ = conversion.Tolerance(s.Tolerance)
	o.Recommend.CPUInitializationPeriod = s.CPUInitializationPeriod
	o.Recommend.InitialReadinessDelay = s.InitialReadinessDelay
	o.Recommend.DownscaleStabilization = s.DownscaleStabilization
	o.Recommend.UpscaleDelay, o.Recommend.DownscaleDelay = s.UpscaleDelay, s.DownscaleDelay
	o.Recommend.ScaleToZero = s.ScaleToZero
	o.Recommend.HistoryLimit = s.HistoryLimit
	o.AllowEvaluationTime, o.MaxClockSkew = s.AllowEvaluationTime, s.MaxClockSkew
	o.AllowedHosts = s.AllowedHosts
	o.LoggedRepeats = s.LoggedRepeats
	o.MaxWatchers, o.MaxWatchersPerCaller = s.MaxWatchers, s.CallersWatchers
	o.MaxSimulations, o.MaxSimulationWork = s.MaxSimulations, s.SimulationWork
	o.AnswerRetention, o.AnswerLimit, o.AnswerBytes = s.AnswerRetention, s.AnswerLimit, s.AnswerBytes
	o.MaxRequestBytes, o.MaxPods, o.MaxBatch = s.MaxRequestBytes, s.MaxPods, s.MaxBatch
	o.MaxStreamInFlight, o.MaxAttempts = s.MaxStreamInFlight, s.MaxAttempts
	o.MaxMetrics = s.MaxMetrics
	o.RequestTimeout, o.DrainTimeout = s.RequestTimeout, s.DrainTimeout
	o.Limits = s.Limits.options()
	o.MaxConnections = s.Limits.Connections
	o.ClusterTargets, o.ClusterBytes = s.Limits.ClusterTargets, s.Limits.ClusterBytes
	o.MaxConnectionAge, o.MaxCallsPerConnection, o.MaxHeaderBytes = s.Limits.MaxConnectionAge, s.Limits.CallsPerConn, s.Limits.HeaderBytes
	if s.Redis.used() {
		o.StoreKind = "redis"
		o.HoldDown, o.CacheBytes = s.OnStoreFailure == holdDownOnFailure, s.HistoryCacheBytes
	}
	if s.UI {
		o.Page = web.Files()
	}
	s.Observe.apply(&o)
	o.Version = cli.Version()
	return o
}
