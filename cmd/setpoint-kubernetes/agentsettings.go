package main

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/setpoint-dev/setpoint/clients/agent/flight"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/agent"
	kubernetesflight "github.com/setpoint-dev/setpoint/clients/kubernetes/agent/flight"
	"github.com/setpoint-dev/setpoint/cmd/internal/agentcmd"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/recommender"
)

// agentSettings are the settings of setpoint agent kubernetes.
type agentSettings struct {
	agentcmd.Settings
	Source  string
	OnRival string

	Kubeconfig, Context string
	Namespaces          []string
	QPS                 float32
	Burst               int

	// SourcesFile has the metric sources, and the External metrics that they answer.
	SourcesFile string

	// PeriodSet reports whether the user set SyncPeriod: then it is that of every profile.
	PeriodSet bool
	// Notes are worth a word at the start; no setting.
	Notes []string

	LeaderElect          bool
	LeaderElectNamespace string
	LeaderElectName      string
	LeaseDuration        time.Duration
	RenewDeadline        time.Duration
	RetryPeriod          time.Duration
}

// bothSources is the value of --source for all sources.
const bothSources = "both"

// The values of --on-rival.
const (
	giveWay = "give-way"
	keepOn  = "keep-on"
)

func defaultAgentSettings() agentSettings {
	return agentSettings{
		Settings:        agentcmd.Defaults(),
		OnRival:         giveWay,
		QPS:             500,
		Burst:           1000,
		LeaderElectName: "setpoint-agent",
		LeaseDuration:   15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
	}
}

func (s *agentSettings) bind(flags *pflag.FlagSet) {
	s.Bind(flags, "")
	flags.Lookup("sync-period").Usage += "; 30s by default for Autoscalers with profile cooldown or design-2015"
	flags.StringVar(&s.Source, "source", s.Source, "`kind` of objects to reconcile: hpa (replaces the built-in controller, which must be off), autoscaler (beside it) or both; required unless --shadow, whose default is hpa")
	flags.StringVar(&s.OnRival, "on-rival", s.OnRival, "`policy` when another controller also acts on a HorizontalPodAutoscaler: give-way, or keep-on")
	flags.StringVar(&s.Kubeconfig, "kubeconfig", s.Kubeconfig, "kubeconfig `file`; empty means $KUBECONFIG, ~/.kube/config, or the cluster the agent runs in")
	flags.StringVar(&s.Context, "context", s.Context, "kubeconfig `context`; empty means the current one")
	flags.StringSliceVar(&s.Namespaces, "namespace", s.Namespaces, "`namespace` to watch, may be repeated; none means all")
	flags.Float32Var(&s.QPS, "kube-api-qps", s.QPS, "requests per second to the API server; 0 means no limit on the client's side")
	flags.IntVar(&s.Burst, "kube-api-burst", s.Burst, "burst of requests to the API server")
	flags.StringVar(&s.SourcesFile, "sources-file", s.SourcesFile, "`file` of metric sources and of the named metrics of Autoscalers that they answer, YAML or JSON; empty means none")
	flags.BoolVar(&s.LeaderElect, "leader-elect", s.LeaderElect, "elect one acting agent among the agents of a cluster")
	flags.StringVar(&s.LeaderElectNamespace, "leader-elect-namespace", s.LeaderElectNamespace, "`namespace` of the Lease; empty means the pod's own")
	flags.StringVar(&s.LeaderElectName, "leader-elect-name", s.LeaderElectName, "`name` of the Lease")
	flags.DurationVar(&s.LeaseDuration, "leader-elect-lease-duration", s.LeaseDuration, "how long standbys wait before they replace a silent leader")
	flags.DurationVar(&s.RenewDeadline, "leader-elect-renew-deadline", s.RenewDeadline, "how long a leader tries to renew the Lease before it gives up")
	flags.DurationVar(&s.RetryPeriod, "leader-elect-retry-period", s.RetryPeriod, "time between attempts to acquire or renew the Lease")
}

// validate returns all that is wrong with the settings.
func (s *agentSettings) validate() error {
	var problems agentcmd.Problems
	refuse := problems.Refuse
	s.Validate(refuse)
	switch {
	case s.Source == "" && !s.Shadow:
		refuse("source", "is required: %s acts on HorizontalPodAutoscalers, for which the built-in controller must be off, %s on Autoscalers, beside it, %s on all", agent.HPA, agent.Autoscaler, bothSources)
	case s.sources() == nil:
		refuse("source", "%q is not one of %s, %s, %s", s.Source, agent.HPA, agent.Autoscaler, bothSources)
	}
	if s.OnRival != giveWay && s.OnRival != keepOn {
		refuse("on-rival", "%q is neither %s nor %s", s.OnRival, giveWay, keepOn)
	}
	for _, namespace := range s.Namespaces {
		if _, err := kubernetes.TargetName("c", namespace, "n"); err != nil {
			refuse("namespace", "%v", err)
		}
	}
	if s.QPS < 0 {
		refuse("kube-api-qps", "%v is negative", s.QPS)
	}
	agentcmd.RefuseUnlessAbove(refuse, "kube-api-burst", s.Burst)
	s.validateElection(refuse)
	return problems.Err()
}

func (s *agentSettings) validateElection(refuse agentcmd.Refuse) {
	if !s.LeaderElect {
		return
	}
	if s.LeaderElectName == "" {
		refuse("leader-elect-name", "is required with --leader-elect")
	}
	if s.RetryPeriod <= 0 {
		refuse("leader-elect-retry-period", "%s is not above 0", s.RetryPeriod)
	}
	// client-go requires a fifth more, so that two attempts fit.
	if s.RenewDeadline <= s.RetryPeriod*6/5 {
		refuse("leader-elect-renew-deadline", "%s is not above 1.2 times the retry period of %s", s.RenewDeadline, s.RetryPeriod)
	}
	if s.LeaseDuration <= s.RenewDeadline {
		refuse("leader-elect-lease-duration", "%s is not above the renew deadline of %s", s.LeaseDuration, s.RenewDeadline)
	}
}

// source is --source, or its default.
func (s *agentSettings) source() string {
	if s.Source == "" && s.Shadow {
		return string(agent.HPA)
	}
	return s.Source
}

// sources are those of --source, nil for an unknown value.
func (s *agentSettings) sources() []agent.Source {
	switch s.source() {
	case string(agent.HPA), string(agent.Autoscaler):
		return []agent.Source{agent.Source(s.source())}
	case bothSources:
		return []agent.Source{agent.HPA, agent.Autoscaler}
	}
	return nil
}

// clusterConfig leads to the cluster.
func (s *agentSettings) clusterConfig() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = s.Kubeconfig
	c, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: s.Context}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	c.UserAgent = "setpoint-agent/" + cli.Version()
	c.QPS = -1
	if s.QPS > 0 {
		// One limit for all clients together.
		c.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(s.QPS, s.Burst)
	}
	return c, nil
}

// profilePeriods are the periods of the controllers that profiles are of.
func profilePeriods() map[string]time.Duration {
	periods := make(map[string]time.Duration)
	for _, name := range recommender.ProfileNames() {
		profile, _ := recommender.ProfileByName(name)
		periods[name] = profile.SyncPeriod()
	}
	return periods
}

// options converts valid settings to the agent's options, with a function that closes the
// recording.
func (s *agentSettings) options(targets flight.Targets, metrics prometheus.Registerer, log *zap.Logger) (agent.Options, func(), error) {
	o := agent.Options{
		Cluster: s.Cluster, Sources: s.sources(), Namespaces: s.Namespaces, SyncPeriod: s.SyncPeriod, Workers: s.Workers,
		RequestTimeout: s.RequestTimeout, DrainTimeout: s.DrainTimeout, Shadow: s.Shadow, KeepOn: s.OnRival == keepOn, Registerer: metrics, Log: log,
	}
	if !s.PeriodSet {
		o.ProfilePeriods = profilePeriods()
	}
	if s.LeaderElect {
		o.Election = &agent.Election{
			Namespace: s.LeaderElectNamespace, Name: s.LeaderElectName,
			LeaseDuration: s.LeaseDuration, RenewDeadline: s.RenewDeadline, RetryPeriod: s.RetryPeriod,
		}
	}
	var closeRecording func()
	var err error
	o.Observers, closeRecording, err = s.Record.Open(kubernetesflight.Format, targets, metrics, log)
	return o, closeRecording, err
}
