package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/agent"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster/apiserver"
	"github.com/setpoint-dev/setpoint/cmd/internal/agentcmd"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/explaincmd"
)

// quietClients keeps client-go from writing to standard error what the explanation says anyway.
var quietClients = sync.OnceFunc(func() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
})

// readLive makes the request from the cluster.
func readLive(cmd *cobra.Command, l *explaincmd.Live) (*setpointv1.RecommendRequest, error) {
	kind, name, err := parseReference(l.Reference)
	if err != nil {
		return nil, cli.BadInput(err)
	}
	config, namespace, err := liveConfig(l)
	if err != nil {
		return nil, cli.BadInput(err)
	}
	quietClients()
	live, err := newLiveCluster(config)
	if err != nil {
		return nil, err
	}
	stored, err := live.read(cmd.Context(), kind, namespace, name)
	if err != nil {
		return nil, err
	}
	waits, err := live.learnNeighbors(cmd.Context(), stored)
	if err != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "not checked whether other autoscalers have the same pods: %v\n", err)
	}
	if waits != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "an agent does not scale it: %s; this is what it would decide otherwise\n", waits)
	}
	snapshot, err := live.snapshot(cmd, stored, l.SourcesFile)
	if err != nil {
		return nil, err
	}
	stages, err := agent.StagesOf(stored)
	if err != nil {
		return nil, cli.BadInput(err)
	}
	options := optionsOf(stored)
	if l.Save != "" {
		if err := saveSnapshot(l.Save, snapshot, stages); err != nil {
			return nil, err
		}
		if options != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "not saved: options, which --dump takes as flags: %s\n", protojson.MarshalOptions{}.Format(options))
		}
		if len(snapshot.Others) > 0 || len(snapshot.MetricErrors) > 0 || snapshot.ScaleError != nil {
			fmt.Fprintln(cmd.ErrOrStderr(), "not saved: what could not be read, and why; --dump explains what is there")
		}
	}
	req, err := snapshot.Request("local")
	if err != nil {
		return nil, err
	}
	req.Target = agent.TargetOf(req.GetTarget(), stored)
	if l.Fleet, err = agent.FleetOf(stored); err != nil {
		return nil, cli.BadInput(err)
	} else if l.Fleet != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "it is a member of the fleet %s, which decides for it; this is what would be decided for it alone\n", l.Fleet)
	}
	req.Explain, req.EvaluationTime, req.Options = true, timestamppb.New(l.At), l.Options.Over(options)
	req.Stages = stages
	return req, nil
}

// snapshot reads the input of an agent with these metric sources. It prints why a source can't
// be read beside the explanation: a status has only the kind of failure.
func (l *liveCluster) snapshot(cmd *cobra.Command, stored client.Object, sourcesFile string) (*kubernetes.Snapshot, error) {
	told := zapcore.NewCore(zapcore.NewConsoleEncoder(zapcore.EncoderConfig{MessageKey: "message", LineEnding: zapcore.DefaultLineEnding}),
		zapcore.AddSync(cmd.ErrOrStderr()), zapcore.WarnLevel)
	sources, err := agentcmd.OpenSources(sourcesFile, prometheus.NewRegistry(), zap.New(told))
	if err != nil {
		return nil, cli.BadInput(fmt.Errorf("--sources-file: %w", err))
	}
	defer sources.Close()
	return agent.SnapshotOf(cmd.Context(), l.reader, stored, sources, liveTimeout)
}

// liveConfig returns the configuration of kubectl's current cluster, and the namespace.
func liveConfig(l *explaincmd.Live) (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = l.Kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: l.Context})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("--live: %w", orNoCluster(err))
	}
	config.UserAgent = "setpoint-explain/" + cli.Version()
	if l.Namespace != "" {
		return config, l.Namespace, nil
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("--live: %w", err)
	}
	return config, namespace, nil
}

// liveKind is a kind of object that can be explained.
type liveKind int

const (
	hpaKind liveKind = iota
	autoscalerKind
)

// parseReference parses KIND/NAME, with the kind as in kubectl.
func parseReference(text string) (liveKind, string, error) {
	resource, name, found := strings.Cut(text, "/")
	short, _, _ := strings.Cut(strings.ToLower(resource), ".")
	kinds := map[string]liveKind{
		"hpa": hpaKind, "horizontalpodautoscaler": hpaKind, "horizontalpodautoscalers": hpaKind,
		"asr": autoscalerKind, "autoscaler": autoscalerKind, "autoscalers": autoscalerKind,
	}
	kind, known := kinds[short]
	if !found || !known || name == "" || strings.Contains(name, "/") {
		return 0, "", fmt.Errorf("--live: %q must be hpa/NAME, or asr/NAME (also autoscaler/NAME)", text)
	}
	return kind, name, nil
}

// liveTimeout bounds one request for an autoscaler.
const liveTimeout = 15 * time.Second

// liveCluster reads autoscalers and their inputs.
type liveCluster struct {
	objects rest.Interface
	reader  *cluster.Reader
}

func newLiveCluster(config *rest.Config) (*liveCluster, error) {
	clients, err := apiserver.New(config)
	if err != nil {
		return nil, err
	}
	objects := rest.CopyConfig(config)
	objects.Timeout = liveTimeout
	client, err := rest.UnversionedRESTClientFor(asJSONClient(objects))
	if err != nil {
		return nil, err
	}
	return &liveCluster{objects: client, reader: cluster.NewReader(cluster.Sources{
		Mapper: clients.Mapper(), Scales: clients, Pods: clients, Metrics: clients,
	}, cluster.Options{})}, nil
}

// maxNeighbors bounds the autoscalers whose scales are read for the check that no pod belongs
// to two.
const maxNeighbors = 200

// learnNeighbors reads the selectors of the namespace's other autoscalers that an agent
// counts, and returns why it leaves this one alone, "" if it does not.
func (l *liveCluster) learnNeighbors(ctx context.Context, stored client.Object) (waits string, err error) {
	standing, err := l.standing(ctx, stored)
	if err != nil {
		return "", err
	}
	if n := len(standing.Counted); n > maxNeighbors {
		return standing.Waits, fmt.Errorf("there are %d in namespace %s, and at most %d are looked at", n, stored.GetNamespace(), maxNeighbors)
	}
	for _, other := range standing.Counted {
		l.reader.Learn(ctx, other)
	}
	return standing.Waits, nil
}
