package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/agent"
	"github.com/setpoint-dev/setpoint/cmd/internal/agentcmd"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/config"
	"github.com/setpoint-dev/setpoint/cmd/internal/managerflags"
	"github.com/setpoint-dev/setpoint/recommender"
)

// settings are Kubernetes' own settings of the agent.
type settings struct {
	*agentcmd.Settings
	Source  string
	OnRival string

	Kubeconfig, Context string
	Namespaces          []string
	QPS                 float32
	Burst               int

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

// defaultWorkers is above the objects that a namespace usually has: they are due together and share a
// reading, and while they wait for it, others go on.
const defaultWorkers = 128

func defaults() *settings {
	return &settings{
		OnRival:         giveWay,
		QPS:             500,
		Burst:           1000,
		LeaderElectName: "setpoint-agent",
		LeaseDuration:   15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
	}
}

func (s *settings) list() []config.Setting {
	return []config.Setting{
		config.String(&s.Source, "source", "`kind` of objects to reconcile: hpa (replaces the built-in controller, which must be off), autoscaler (beside it) or both; required unless --shadow, whose default is hpa"),
		config.String(&s.OnRival, "on-rival", "`policy` when another controller also acts on a HorizontalPodAutoscaler: give-way, or keep-on", config.OneOf(giveWay, keepOn)),
		config.String(&s.Kubeconfig, "kubeconfig", "kubeconfig `file`; empty means $KUBECONFIG, ~/.kube/config, or the cluster the agent runs in"),
		config.String(&s.Context, "context", "kubeconfig `context`; empty means the current one"),
		config.Strings(&s.Namespaces, "namespace", "`namespace` to watch, may be repeated; none means all", checkNamespaces),
		config.Float32(&s.QPS, "kube-api-qps", "requests per second to the API server; 0 means no limit on the client's side", config.NotNegative),
		config.Int(&s.Burst, "kube-api-burst", "burst of requests to the API server", config.Positive),
	}
}

func (s *settings) election() config.Group {
	return config.Group{Title: "Leader election", Settings: []config.Setting{
		config.Bool(&s.LeaderElect, "leader-elect", "elect one acting agent among the agents of a cluster"),
		config.String(&s.LeaderElectNamespace, "leader-elect-namespace", "`namespace` of the Lease; empty means the pod's own"),
		config.String(&s.LeaderElectName, "leader-elect-name", "`name` of the Lease"),
		config.Duration(&s.LeaseDuration, "leader-elect-lease-duration", "how long standbys wait before they replace a silent leader"),
		config.Duration(&s.RenewDeadline, "leader-elect-renew-deadline", "how long a leader tries to renew the Lease before it gives up"),
		config.Duration(&s.RetryPeriod, "leader-elect-retry-period", "time between attempts to acquire or renew the Lease"),
	}}
}

func checkNamespaces(names []string) error {
	for _, name := range names {
		if _, err := kubernetes.TargetName("c", name, "n"); err != nil {
			return err
		}
	}
	return nil
}

// changeFlags says of the flags of every agent what is Kubernetes' own, and adds those of its
// controller manager.
func changeFlags(flags *pflag.FlagSet) {
	flags.Lookup("sync-period").Usage += "; 30s by default for Autoscalers with profile cooldown or design-2015"
	flags.Lookup("sources-file").Usage = "`file` of metric sources and of the named metrics of Autoscalers that they answer, YAML or JSON; empty means none"
	managerflags.Bind(flags, managerflags.Agent)
}

func (s *settings) validate(all *agentcmd.Settings, refuse config.Refuse) {
	s.Settings = all
	switch {
	case s.Source == "" && !s.Shadow:
		refuse("source", "is required: %s acts on HorizontalPodAutoscalers, for which the built-in controller must be off, %s on Autoscalers, beside it, %s on all", agent.HPA, agent.Autoscaler, bothSources)
	case s.sources() == nil:
		refuse("source", "%q is not one of %s, %s, %s", s.Source, agent.HPA, agent.Autoscaler, bothSources)
	}
	s.validateElection(refuse)
}

func (s *settings) validateElection(refuse config.Refuse) {
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
	if s.LeaseDuration < time.Second { // which a Lease has in whole ones, above 0
		refuse("leader-elect-lease-duration", "%s is below 1s", s.LeaseDuration)
	}
	if s.LeaseDuration <= s.RenewDeadline {
		refuse("leader-elect-lease-duration", "%s is not above the renew deadline of %s", s.LeaseDuration, s.RenewDeadline)
	}
}

// source is --source, or its default.
func (s *settings) source() string {
	if s.Source == "" && s.Shadow {
		return string(agent.HPA)
	}
	return s.Source
}

// sources are those of --source, nil for an unknown value.
func (s *settings) sources() []agent.Source {
	switch s.source() {
	case string(agent.HPA), string(agent.Autoscaler):
		return []agent.Source{agent.Source(s.source())}
	case bothSources:
		return []agent.Source{agent.HPA, agent.Autoscaler}
	}
	return nil
}

// clusterConfig leads to the cluster.
func (s *settings) clusterConfig() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = s.Kubeconfig
	c, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: s.Context}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", orNoCluster(err))
	}
	c.UserAgent = "setpoint-agent/" + cli.Version()
	c.QPS = -1
	if s.QPS > 0 {
		// One limit for all clients together.
		c.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(s.QPS, s.Burst)
	}
	return c, nil
}

// orNoCluster says what to do where nothing leads to a cluster. client-go names a variable of its own there, which nobody sets.
func orNoCluster(err error) error {
	if clientcmd.IsEmptyConfig(err) {
		return errors.New("no cluster is configured: give --kubeconfig, or set $KUBECONFIG; a pod needs the token of its ServiceAccount")
	}
	return err
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

// options are those of the agent. Profiles have their own periods unless the user sets one.
func (s *settings) options(parts *agentcmd.Parts) agent.Options {
	o := agent.Options{
		Cluster: s.Cluster, Sources: s.sources(), Namespaces: s.Namespaces, SyncPeriod: s.SyncPeriod, Workers: s.Workers,
		RequestTimeout: s.RequestTimeout, DrainTimeout: s.DrainTimeout, Shadow: s.Shadow, KeepOn: s.OnRival == keepOn,
		NamedMetrics: parts.Sources, Registerer: parts.Metrics, Log: parts.Log,
	}
	if !parts.Flags.Changed("sync-period") {
		o.ProfilePeriods = profilePeriods()
	}
	if s.LeaderElect {
		o.Election = &agent.Election{
			Namespace: s.LeaderElectNamespace, Name: s.LeaderElectName,
			LeaseDuration: s.LeaseDuration, RenewDeadline: s.RenewDeadline, RetryPeriod: s.RetryPeriod,
		}
	}
	return o
}
