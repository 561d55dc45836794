package main

import (
	"context"
	"slices"

	"k8s.io/klog/v2"
	runtimelog "sigs.k8s.io/controller-runtime/pkg/log"
	runtimemetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	loop "github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/agent"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/agent/logging"
	"github.com/setpoint-dev/setpoint/cmd/internal/agentcmd"
	"github.com/setpoint-dev/setpoint/cmd/internal/config"
	"github.com/setpoint-dev/setpoint/cmd/internal/managerflags"
)

func newProgram() agentcmd.Program {
	s := defaults()
	return agentcmd.Program{
		Platform:   "kubernetes",
		Workers:    defaultWorkers,
		Unresolved: "correct the name in --server; in a pod it is SERVICE.NAMESPACE.svc",
		Unanswered: "check firewalls and NetworkPolicies (in the release's namespace clients need the label setpoint.dev/access=true)",
		Checked:    "the API server, the agent's rights in the cluster, the metrics APIs, and\nother controllers of the same objects",
		Short:      "Scale the workloads of a Kubernetes cluster",
		Long: `Scale the workloads of a Kubernetes cluster as a server recommends. Choose one mode:

  --source=hpa         replaces the built-in HorizontalPodAutoscaler controller, which
                       must be off (--controllers=*,-horizontal-pod-autoscaler-controller)
  --source=autoscaler  runs beside it, for objects of the kind Autoscaler
  --source=both        does both
  --shadow             decides beside it and applies nothing

If another controller acts on the same objects, the agent gives way. While it can't reach
the server, it changes no count. Several agents of a cluster elect the one that acts
(--leader-elect).

Each flag can also be set by a variable (--cluster: SETPOINT_CLUSTER) and by a key of the
config file. The agent also accepts kube-controller-manager's flag
--horizontal-pod-autoscaler-sync-period; set the flags that affect decisions on
setpoint serve.`,
		Example: `  setpoint agent kubernetes --cluster=demo --source=autoscaler --server=setpoint:9090 --token-file=/var/run/secrets/setpoint/token
  setpoint agent kubernetes --cluster=demo --server=127.0.0.1:9090 --insecure --shadow
  setpoint agent kubernetes --shadow --report
  setpoint agent kubernetes --shadow --report-differing`,
		DoctorExample: `  setpoint-kubernetes doctor --cluster=demo --source=hpa --server=setpoint:9090 --token-file=token
  kubectl -n setpoint exec deploy/setpoint-agent -- /setpoint-kubernetes doctor`,
		Settings: s.list(), Groups: config.List{s.election()}, Flags: changeFlags, Validate: s.validate, Open: s.open,
		// The metrics of Kubernetes' libraries, of the runtime and of the process.
		Libraries: runtimemetrics.Registry,
	}
}

func (s *settings) open(parts agentcmd.Parts) (*agentcmd.Platform, error) {
	cluster, err := s.clusterConfig()
	if err != nil {
		return nil, err
	}
	a, err := agent.New(cluster, s.options(&parts))
	if err != nil {
		return nil, err
	}
	notes := managerflags.WithoutEffect(parts.Flags, managerflags.Agent)
	if !slices.Contains(s.sources(), agent.Autoscaler) {
		notes = append(notes, config.WithoutEffect(parts.Flags, "source=autoscaler or both: HorizontalPodAutoscalers name no sources", "sources-file")...)
	}
	seen := &patient{settings: s, config: cluster, named: parts.Sources}
	return &agentcmd.Platform{
		Platform: a.Platform(), Kinds: agent.Kinds(), Ready: a.Ready, Problem: a.Standby,
		Queue: &agentcmd.Queue{QueueOptions: a.Queue(), Run: func(ctx context.Context, loop *loop.Loop) error {
			klog.SetLogger(logging.New(parts.Log.Named("kubernetes")))
			runtimelog.SetLogger(logging.New(parts.Log.Named("kubernetes")))
			return a.Run(ctx, loop)
		}},
		Acts: func(ctx context.Context) ([]loop.Acting, error) {
			if seen.client != nil { // of doctor
				return seen.acts(ctx)
			}
			return a.Acts(ctx)
		},
		Checks: seen.checks(), Asks: seen.asks, Notes: notes,
	}, nil
}
