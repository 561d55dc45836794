// Command setpoint-external-metrics serves external.metrics.k8s.io from recommendations, so
// that a plain HorizontalPodAutoscaler follows Setpoint. docs/guides/external-metrics.md
// explains it.
//
// It is a module of its own, because the API server library would more than double the main
// module's dependencies.
package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/dynamic"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	adapter "sigs.k8s.io/custom-metrics-apiserver/pkg/cmd"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/cmd/internal/buildmetric"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/config"
	"github.com/setpoint-dev/setpoint/cmd/internal/connection"
	"github.com/setpoint-dev/setpoint/internal/target"
)

func main() {
	// The library serves this registry at /metrics, with its own metrics.
	legacyregistry.RawMustRegister(buildmetric.New())
	cli.Main(newRoot())
}

// settings are the program's own; the library has those of the API server.
type settings struct {
	connection connection.Settings
	cluster    string
	service    string
	timeout    time.Duration
	adapter    adapter.AdapterBase
}

func newRoot() *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use:   "setpoint-external-metrics",
		Short: "Serve recommendations as an external metric",
		Long: `Serves external.metrics.k8s.io with one metric, recommended-replicas: the count that a
Setpoint service recommends for a target with a stored spec. A HorizontalPodAutoscaler with
this metric follows the service. A cluster has only one provider of that API: if another
one is registered, this program refuses to start.

Exit codes: 0 success; 1 failure; 2 invalid flags or input.`,
	}
	root := cli.Root(cmd, cli.NewVersion())
	root.RunE = func(cmd *cobra.Command, _ []string) error { return s.run(cmd.Context()) }
	s.bind(root.Flags())
	return root
}

func (s *settings) bind(flags *pflag.FlagSet) {
	// The API server has flags of the same names for its serving certificates.
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.List{{Settings: s.connection.List("Setpoint")}}.Bind(own)
	own.VisitAll(func(flag *pflag.Flag) {
		flag.Name = serverFlag(flag.Name)
		flag.Usage = strings.ReplaceAll(flag.Usage, "--tls-", "--server-tls-")
		flags.AddFlag(flag)
	})
	flags.StringVar(&s.cluster, "cluster", "", "`name` of this cluster, as in the names of its targets; required")
	flags.StringVar(&s.service, "service", "setpoint/setpoint-external-metrics", "`namespace/name` of this program's Service, which the APIService must name")
	flags.DurationVar(&s.timeout, "request-timeout", 5*time.Second, "timeout of a recommendation, all attempts together")
	s.adapter.Name = "setpoint-external-metrics"
	s.adapter.FlagSet = flags
	s.adapter.InstallFlags()
}

// serverFlag is this program's name of a flag of connection.Settings.
func serverFlag(name string) string {
	if strings.HasPrefix(name, "server") {
		return name
	}
	return "server-" + name
}

func (s *settings) validate() error {
	var problems config.Problems
	refuse := problems.Refuse
	s.connection.Validate(func(flag, format string, args ...any) {
		refuse(serverFlag(flag), strings.ReplaceAll(format, "--t", "--server-t"), args...)
	})
	if !target.IsSegment(s.cluster) {
		refuse("cluster", "%q must be 1 to 253 characters of [A-Za-z0-9._-], and not \".\", \"..\" or \"-\"", s.cluster)
	}
	if namespace, name, ok := strings.Cut(s.service, "/"); !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		refuse("service", "%q is not namespace/name", s.service)
	}
	if s.timeout <= 0 || s.timeout > time.Minute {
		refuse("request-timeout", "must be above 0 and at most 1m")
	}
	return cli.BadInput(problems.Err())
}

func (s *settings) run(ctx context.Context) error {
	defer klog.Flush()
	if err := s.validate(); err != nil {
		return err
	}
	client, err := s.connection.Open("setpoint-external-metrics")
	if err != nil {
		return cli.BadInput(err)
	}
	defer client.Close()
	config, err := s.adapter.ClientConfig()
	if err != nil {
		return fmt.Errorf("reach the cluster: %w", err)
	}
	kubernetes, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("reach the cluster: %w", err)
	}
	o := &owner{service: s.service, apiServices: kubernetes.Resource(apiServices)}
	if err := o.look(ctx); err != nil {
		return err
	}
	s.adapter.WithExternalMetrics(&provider{
		cluster: s.cluster, timeout: s.timeout, now: time.Now,
		recommend: func(ctx context.Context, target string) (*setpointv1.Recommendation, error) {
			request := &setpointv1.GetRecommendationRequest{Target: target}
			response, err := setpointv1.NewRecommendationServiceClient(client.Conn()).GetRecommendation(ctx, request)
			return response.GetRecommendation(), err
		},
	})
	server, err := s.adapter.Server()
	if err != nil {
		return fmt.Errorf("prepare the API server: %w", err)
	}
	if err := server.GenericAPIServer.AddReadyzChecks(healthz.NamedCheck("provider", o.check)); err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		o.watch(watching)
	}()
	defer func() {
		stop()
		<-done
	}()
	klog.InfoS("serving external.metrics.k8s.io", "version", cli.Version(), "cluster", s.cluster, "server", s.connection.Server)
	return s.adapter.Run(ctx)
}
