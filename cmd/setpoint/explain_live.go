package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster"
)

// liveFlags are the flags of setpoint explain --live.
type liveFlags struct {
	reference  string
	kubeconfig string
	context    string
	save       string
}

func (l *liveFlags) bind(flags *pflag.FlagSet) {
	flags.StringVar(&l.reference, "live", "", "`autoscaler` to read from the cluster: hpa/NAME, or autoscaler/NAME for one of setpoint's own")
	flags.StringVar(&l.kubeconfig, "kubeconfig", "", "`file` that leads to the cluster; empty: $KUBECONFIG or ~/.kube/config")
	flags.StringVar(&l.context, "context", "", "`context` of that file; empty: its current one")
	flags.StringVar(&l.save, "save", "", "`file` to write what was read to, for --dump")
}

// onlyLive refuses files beside the cluster.
func (c *explainCommand) onlyLive() error {
	if len(c.dump) > 0 || c.name != "" {
		return errors.New("--live reads everything from the cluster: leave out --dump and --name")
	}
	for _, f := range partFlags {
		if len(*c.files[f.part]) > 0 {
			return fmt.Errorf("--live reads everything from the cluster: leave out --%s", f.flag)
		}
	}
	return nil
}

// quietClients keeps client-go from writing to standard error what is told in the
// explanation.
var quietClients = sync.OnceFunc(func() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
})

// readLive makes the request from the cluster.
func (c *explainCommand) readLive(cmd *cobra.Command) (*setpointv1.RecommendRequest, error) {
	kind, name, err := parseReference(c.live.reference)
	if err != nil {
		return nil, badInput(err)
	}
	at, err := c.liveInstant()
	if err != nil {
		return nil, badInput(err)
	}
	config, namespace, err := c.clusterConfig()
	if err != nil {
		return nil, badInput(err)
	}
	quietClients()
	live, err := newLiveCluster(config)
	if err != nil {
		return nil, err
	}
	autoscaler, options, err := live.autoscaler(cmd.Context(), kind, namespace, name)
	if err != nil {
		return nil, err
	}
	if err := live.learnNeighbors(cmd.Context(), autoscaler); err != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "not checked whether other autoscalers have the same pods: %v\n", err)
	}
	snapshot, err := live.reader.Snapshot(cmd.Context(), autoscaler)
	if err != nil {
		return nil, err
	}
	if c.live.save != "" {
		if err := saveSnapshot(c.live.save, snapshot); err != nil {
			return nil, err
		}
		if len(snapshot.Others) > 0 || len(snapshot.MetricErrors) > 0 || snapshot.ScaleError != nil {
			fmt.Fprintln(cmd.ErrOrStderr(), "not saved: what could not be read, and why; --dump explains what is there")
		}
	}
	req, err := snapshot.Request("local")
	if err != nil {
		return nil, err
	}
	req.Explain, req.EvaluationTime, req.Options = true, timestamppb.New(at), c.options.over(options)
	return req, nil
}

// liveInstant is that of --at, else now.
func (c *explainCommand) liveInstant() (time.Time, error) {
	if c.at == "" {
		return time.Now(), nil
	}
	return c.instant(nil)
}

// clusterConfig leads to the cluster that kubectl would ask, and to the namespace.
func (c *explainCommand) clusterConfig() (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.live.kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: c.live.context})
	config, err := loader.ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, "", errors.New("--live: no cluster is configured: give --kubeconfig, or set $KUBECONFIG")
	case err != nil:
		return nil, "", fmt.Errorf("--live: %w", err)
	}
	config.UserAgent = "setpoint-explain/" + version()
	if c.namespace != "" {
		return config, c.namespace, nil
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

// parseReference reads KIND/NAME, the kind as kubectl takes it.
func parseReference(text string) (liveKind, string, error) {
	resource, name, found := strings.Cut(text, "/")
	short, _, _ := strings.Cut(strings.ToLower(resource), ".")
	kinds := map[string]liveKind{
		"hpa": hpaKind, "horizontalpodautoscaler": hpaKind, "horizontalpodautoscalers": hpaKind,
		"autoscaler": autoscalerKind, "autoscalers": autoscalerKind,
	}
	kind, known := kinds[short]
	if !found || !known || name == "" || strings.Contains(name, "/") {
		return 0, "", fmt.Errorf("--live: %q must be hpa/NAME or autoscaler/NAME", text)
	}
	return kind, name, nil
}

// liveTimeout bounds one request for an autoscaler.
const liveTimeout = 15 * time.Second

// liveCluster reads autoscalers and what they see.
type liveCluster struct {
	objects rest.Interface
	reader  *cluster.Reader
}

func newLiveCluster(config *rest.Config) (*liveCluster, error) {
	clients, err := cluster.NewClients(config)
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

// maxNeighbors bounds the autoscalers whose scales are read for the check that no
// pod belongs to two.
const maxNeighbors = 200

// learnNeighbors reads the selectors of the namespace's other autoscalers.
func (l *liveCluster) learnNeighbors(ctx context.Context, autoscaler *autoscalingv2.HorizontalPodAutoscaler) error {
	others, err := l.neighbors(ctx, autoscaler.Namespace)
	if err != nil {
		return err
	}
	if len(others) > maxNeighbors {
		return fmt.Errorf("there are %d in namespace %s, of which %d at most are looked at", len(others), autoscaler.Namespace, maxNeighbors)
	}
	for i := range others {
		if others[i].Name != autoscaler.Name {
			l.reader.Learn(ctx, &others[i])
		}
	}
	return nil
}

// over returns the options of the command line over those of the object.
func (o *optionFlags) over(object *setpointv1.RecommendOptions) *setpointv1.RecommendOptions {
	options := o.message()
	if object == nil {
		return options
	}
	// The flags are called as the fields are.
	object.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if !o.flags.Changed(strings.ReplaceAll(string(field.Name()), "_", "-")) {
			options.ProtoReflect().Set(field, value)
		}
		return true
	})
	return options
}
