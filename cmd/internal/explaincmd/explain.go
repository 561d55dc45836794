// Package explaincmd is the command explain, from files or from a cluster; only programs that
// link a cluster client read clusters.
package explaincmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/manifest"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/connection"
	"github.com/setpoint-dev/setpoint/explain"
	"github.com/setpoint-dev/setpoint/internal/document"
	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/recommender"
)

// explainCommand holds the flags of setpoint explain.
type explainCommand struct {
	files     map[manifest.Part]*[]string
	dump      []string
	name      string
	namespace string
	at        string
	allPods   bool
	live      Live
	fromLive  FromLive
	options   Options
	output    *cli.OutputFlag
	// cluster is the flag's: of the target at the server; empty: none is asked.
	cluster string
	server  *connection.Settings
}

// Live is the options for explaining from a cluster.
type Live struct {
	// Reference is the autoscaler, KIND/NAME; empty: files are explained.
	Reference string
	// Kubeconfig, Context and Save are the flags of these names.
	Kubeconfig, Context, Save string
	// SourcesFile is the flag's value; empty: all metrics come from the metrics APIs.
	SourcesFile string
	// Namespace is the flag's; empty: that of the kubeconfig.
	Namespace string
	// At is the instant to decide for.
	At time.Time
	// Options are the command line's.
	Options *Options
	// Fleet is found: the fleet of the autoscaler; empty: it is in none.
	Fleet string
}

func (l *Live) bind(flags *pflag.FlagSet) {
	flags.StringVar(&l.Reference, "live", "", "`autoscaler` to read from the cluster: hpa/NAME, or asr/NAME (also autoscaler/NAME) for one of setpoint's own")
	flags.StringVar(&l.Kubeconfig, "kubeconfig", "", "kubeconfig `file`; empty means $KUBECONFIG or ~/.kube/config")
	flags.StringVar(&l.Context, "context", "", "kubeconfig `context`; empty means the current one")
	flags.StringVar(&l.SourcesFile, "sources-file", "", "`file` of metric sources, the agent's --sources-file; empty means it has none")
	flags.StringVar(&l.Save, "save", "", "`file` to save all input to, for --dump")
}

// FromLive makes the request from the cluster.
type FromLive func(cmd *cobra.Command, live *Live) (*setpointv1.RecommendRequest, error)

// partFlags name the files with one part of a dump each.
var partFlags = []struct {
	part       manifest.Part
	flag, what string
}{
	{manifest.Autoscalers, "hpa", "HorizontalPodAutoscalers (autoscaling/v2, v2beta2, v2beta1 or v1, extensions/v1beta1)"},
	{manifest.Scales, "scale", "the Scale, or the Deployment, StatefulSet, ReplicaSet or ReplicationController, of any version there was"},
	{manifest.Pods, "pods", "the pods"},
	{manifest.PodMetrics, "pod-metrics", "PodMetrics of metrics.k8s.io"},
	{manifest.CustomMetrics, "custom-metrics", "MetricValues of custom.metrics.k8s.io"},
	{manifest.ExternalMetrics, "external-metrics", "ExternalMetricValues of external.metrics.k8s.io"},
}

// New returns the command.
func New(fromLive FromLive) *cobra.Command {
	c := &explainCommand{fromLive: fromLive, output: cli.NewOutputFlag(cli.AsText, cli.AsJSON, cli.AsYAML)}
	cmd := &cobra.Command{
		Use:   "explain [KIND/NAME]",
		Short: "Explain what HPA would do, from a cluster or from kubectl's output",
		Long: `Explain what the HorizontalPodAutoscaler controller would do and why: each metric's
arithmetic, how each pod counted, windows, policies, bounds and conditions.

With KIND/NAME, or --live, it reads the cluster of the current kubeconfig context, with the
user's permissions, and changes nothing:

  setpoint explain hpa/web -n shop

Otherwise it reads kubectl's output, JSON or YAML: one file for each kind, or one for all
(--dump):

  kubectl get hpa web -o yaml > hpa.yaml
  kubectl get pods -o json > pods.json
  kubectl get --raw /apis/metrics.k8s.io/v1beta1/namespaces/shop/pods > podmetrics.json
  kubectl get --raw /apis/apps/v1/namespaces/shop/deployments/web/scale > scale.json

It decides for the time of the newest sample, of a cluster for the current time, or for
the time of --at. It can't read the controller's own history, so the controller's windows
and policies may limit the count more than shown.

With --cluster it also asks the server there, which has that history, what its forecast said, how its
shadows differ, and what comes next for the target: counts and instants if the metrics stay as they
are, as setpoint targets get does.`,
		Example: "  setpoint explain hpa/web -n shop\n  setpoint explain --hpa hpa.yaml --scale scale.json --pods pods.json --pod-metrics podmetrics.json\n  setpoint explain --dump dump.yaml --name shop/web -o json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && c.live.Reference != "" {
				return fmt.Errorf("one autoscaler can be explained, KIND/NAME; unexpected argument %q", args[len(args)-1])
			}
			if len(args) == 1 {
				if strings.HasPrefix(args[0], "clusters/") {
					return fmt.Errorf("%q is a target of a server, whose last decision setpoint targets explain explains; here an autoscaler is KIND/NAME, such as hpa/web", args[0])
				}
				if !strings.Contains(args[0], "/") {
					return fmt.Errorf("unexpected argument %q: an autoscaler of the cluster is KIND/NAME, such as hpa/web; files have flags (--hpa, --dump)", args[0])
				}
				c.live.Reference = args[0]
			}
			return nil
		},
		RunE: c.run,
	}
	flags := cmd.Flags()
	c.files = make(map[manifest.Part]*[]string)
	for _, f := range partFlags {
		c.files[f.part] = flags.StringArray(f.flag, nil, "`file` with "+f.what+"; repeatable, - for standard input")
	}
	flags.StringArrayVar(&c.dump, "dump", nil, "`file` that holds all of these, as a List or several documents; repeatable")
	flags.StringVar(&c.name, "name", "", "`[namespace/]name` of the autoscaler, where there are several")
	flags.StringVarP(&c.namespace, "namespace", "n", "", "`namespace` of autoscalers that name none")
	flags.StringVar(&c.at, "at", "", "`time` to decide for, RFC 3339, in place of the newest sample's")
	flags.BoolVar(&c.allPods, "all-pods", false, "list all pods, not only the unusual ones")
	flags.VarP(c.output, "output", "o", "form of the explanation: text, json or yaml")
	c.live.bind(flags)
	flags.StringVar(&c.cluster, "cluster", "", "`name` of the cluster at the server, the agent's --cluster: then what comes next is shown, too; empty asks no server")
	c.server = connection.Bind(flags, connection.DefaultServer, "the server to ask with --cluster")
	c.options.Bind(flags)
	return cmd
}

func (c *explainCommand) run(cmd *cobra.Command, _ []string) error {
	req, ignored, err := c.gather(cmd)
	if err != nil {
		return err
	}
	if c.cluster != "" {
		_, rest, _ := strings.Cut(req.GetTarget(), "/namespaces/")
		req.Target = "clusters/" + c.cluster + "/namespaces/" + rest
	}
	resp, err := Decide(cmd.Context(), req)
	if err != nil {
		return err
	}
	if c.cluster != "" && c.output.Form != cli.AsText {
		ignored = append(ignored, "--cluster, as only the text has what a server knows")
	}
	for _, what := range ignored {
		fmt.Fprintln(cmd.ErrOrStderr(), "not used: "+what)
	}
	if c.output.Form != cli.AsText {
		return cli.WriteMessage(cmd.OutOrStdout(), c.output.Form, resp)
	}
	options := cli.Terminal(cmd.OutOrStdout())
	options.AllPods, options.Unasked, options.Ahead = c.allPods, true, Ahead(req, resp)
	if err := explain.Write(cmd.OutOrStdout(), req, resp, options); err != nil || c.cluster == "" {
		return err
	}
	return c.writeTarget(cmd, req.GetTarget())
}

// writeTarget writes what the server knows of the target: its forecast, its shadows, and what comes next; of a member of
// a fleet, which has none of these, what it was told.
func (c *explainCommand) writeTarget(cmd *cobra.Command, name string) error {
	return c.server.Call(func(conn grpc.ClientConnInterface) error {
		client, w := setpointv1.NewTargetServiceClient(conn), cmd.OutOrStdout()
		if c.live.Fleet != "" {
			return writeShare(cmd.Context(), w, client, name, c.live.Fleet)
		}
		resp, err := client.GetTarget(cmd.Context(), &setpointv1.GetTargetRequest{Name: name})
		if err != nil {
			return err
		}
		t := resp.GetTarget()
		if err := explain.WriteForecast(w, t.GetLastDecision().GetAdjustments()); err != nil {
			return err
		}
		if err := explain.WriteShadows(w, t.GetShadows()); err != nil {
			return err
		}
		return explain.WriteOutlook(w, t.GetOutlook(), time.Now())
	})
}

// writeShare writes what the server last told a member of a fleet.
func writeShare(ctx context.Context, w io.Writer, client setpointv1.TargetServiceClient, name, fleet string) error {
	resp, err := client.ListDecisions(ctx, &setpointv1.ListDecisionsRequest{Parent: name, PageSize: 1})
	if err != nil {
		return err
	}
	told := "its fleet told it nothing so far"
	for _, d := range resp.GetDecisions() { // whenever its share changes there is one
		told = fmt.Sprintf("its fleet told it %d replicas", d.GetDesiredReplicas())
		for _, of := range d.GetConditions() {
			if of.GetType() == recommender.ScalingLimited {
				told += ": " + printable.Text(of.GetMessage())
			}
		}
	}
	_, err = fmt.Fprintf(w, "\nWhat decides\n  %s\n  setpoint fleet show %s has how it decides\n", told, fleet)
	return err
}

// gather makes the request from the cluster or from files, and names the unused objects of the
// files.
func (c *explainCommand) gather(cmd *cobra.Command) (*setpointv1.RecommendRequest, []string, error) {
	if c.live.Reference != "" {
		req, err := c.readLive(cmd)
		return req, nil, err
	}
	for _, of := range []struct{ flag, value, why string }{
		{"sources-file", c.live.SourcesFile, "metrics come from the files"}, {"save", c.live.Save, "all input is in the files already"},
		{"kubeconfig", c.live.Kubeconfig, "no cluster is read"}, {"context", c.live.Context, "no cluster is read"},
	} {
		if of.value != "" {
			return nil, nil, cli.BadInput(fmt.Errorf("--%s only applies with KIND/NAME or --live: without them, %s", of.flag, of.why))
		}
	}
	dump, err := c.read(cmd)
	if err != nil {
		return nil, nil, err
	}
	req, err := c.request(dump)
	return req, dump.Ignored, cli.BadInput(err)
}

func (c *explainCommand) readLive(cmd *cobra.Command) (*setpointv1.RecommendRequest, error) {
	if err := c.onlyLive(); err != nil {
		return nil, cli.BadInput(err)
	}
	c.live.Namespace, c.live.At, c.live.Options = c.namespace, time.Now(), &c.options
	if c.at != "" {
		at, err := c.instant(nil)
		if err != nil {
			return nil, cli.BadInput(err)
		}
		c.live.At = at
	}
	return c.fromLive(cmd, &c.live)
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

// read reads all named files; the error lists the problems of all.
func (c *explainCommand) read(cmd *cobra.Command) (*manifest.Dump, error) {
	dump := &manifest.Dump{Namespace: c.namespace}
	var problems []error
	read := func(name string, parts ...manifest.Part) {
		file, err := cli.Open(cmd, name)
		if err == nil {
			var head document.Head
			err = dump.Read(name, io.TeeReader(file, &head), parts...)
			err = cli.BadInput(document.Lined(name, head.Bytes(), err))
			_ = file.Close()
		}
		problems = append(problems, err)
	}
	files := len(c.dump)
	for _, name := range c.dump {
		read(name)
	}
	for _, f := range partFlags {
		for _, name := range *c.files[f.part] {
			files++
			read(name, f.part)
		}
	}
	if files == 0 {
		return nil, cli.BadInput(errors.New("nothing to explain: give KIND/NAME, such as hpa/web, or --live, or --hpa and the rest, or --dump; see " + cmd.CommandPath() + " --help"))
	}
	return dump, errors.Join(problems...)
}

func (c *explainCommand) request(dump *manifest.Dump) (*setpointv1.RecommendRequest, error) {
	snapshot, err := dump.Snapshot(c.name)
	if errors.Is(err, kubernetes.ErrNoAutoscaler) {
		err = fmt.Errorf("%w: give --hpa, or --dump with one in it", err)
	}
	if errors.Is(err, manifest.ErrSeveralAutoscalers) {
		err = fmt.Errorf("%w; choose one with --name", err)
	}
	if err != nil {
		return nil, err
	}
	req, err := snapshot.Request("local")
	if errors.Is(err, kubernetes.ErrNoScale) {
		err = fmt.Errorf("%w: give --scale, or the workload itself in --dump", err)
	}
	if err != nil {
		return nil, err
	}
	at, err := c.instant(req)
	if err != nil {
		return nil, err
	}
	if req.Stages, err = dump.Stages(snapshot.Autoscaler); err != nil {
		return nil, cli.BadInput(err)
	}
	req.Explain, req.EvaluationTime, req.Options = true, timestamppb.New(at), c.options.Message(c.options.Profile)
	return req, nil
}

// instant is that of --at, else of the newest sample, else now.
func (c *explainCommand) instant(req *setpointv1.RecommendRequest) (time.Time, error) {
	if c.at != "" {
		at, err := time.Parse(time.RFC3339Nano, c.at)
		if err != nil {
			return time.Time{}, fmt.Errorf("--at: %q is not an RFC 3339 time such as 2026-01-31T03:00:00Z", c.at)
		}
		return at, nil
	}
	var newest time.Time
	see := func(t *timestamppb.Timestamp) {
		if t != nil && t.AsTime().After(newest) {
			newest = t.AsTime()
		}
	}
	for _, m := range req.GetPodMetrics() {
		see(m.GetTimestamp())
	}
	for _, m := range req.GetCustomMetrics() {
		see(m.GetTimestamp())
	}
	for _, m := range req.GetExternalMetrics() {
		see(m.GetTimestamp())
	}
	if newest.IsZero() {
		newest = time.Now()
	}
	return newest, nil
}
