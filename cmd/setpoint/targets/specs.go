//go:build !service

package targets

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/connection"
	"github.com/setpoint-dev/setpoint/cmd/internal/listing"
	"github.com/setpoint-dev/setpoint/cmd/internal/specfile"
	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/server/validation"
)

// specsCommand is shared by the commands on stored specs.
type specsCommand struct {
	targetsCommand
	file, etag string
	anyVersion bool
	condition  string
	limit      int
	current    int32
}

func newSpecs() *cobra.Command {
	c := &specsCommand{targetsCommand: targetsCommand{output: cli.NewOutputFlag(cli.AsTable, cli.AsJSON, cli.AsYAML)}}
	cmd := &cobra.Command{
		Use:   "specs",
		Short: "Store, show, poll, promote and delete the specs of targets",
		Long: `Store, show, poll, promote and delete the specs of targets. With a stored spec, callers can get a recommendation for a
target without sending a spec or metrics (GetRecommendation, KEDA and others). ` + targetForms,
	}
	c.server = connection.Bind(cmd.PersistentFlags(), connection.DefaultServer, "the server")
	cmd.PersistentFlags().VarP(c.output, "output", "o", "form of the output: table, json or yaml")

	list := &cobra.Command{
		Use:     "list [clusters/CLUSTER/namespaces/NAMESPACE]",
		Short:   "List stored specs; - stands for all clusters or namespaces",
		Example: "  setpoint specs list clusters/eu-1/namespaces/-\n  setpoint specs list -o yaml >specs.yaml; setpoint specs set -f specs.yaml --any-version",
		Args:    cobra.MaximumNArgs(1),
		RunE:    c.list,
	}
	listing.Limit(list, &c.limit, 1000, "specs")
	set := &cobra.Command{
		Use:   "set [TARGET] -f FILE",
		Short: "Store the spec of a target, replacing the stored one; without TARGET all specs of a file",
		Long: `Store the spec of a target. FILE is a TargetSpec as the REST API takes it, in YAML or
JSON, a HorizontalPodAutoscaler of any version, a request, or the spec itself. To change a stored spec, edit the output of "specs get -o yaml" and
store it again: its etag makes the server refuse the change if the stored spec has changed meanwhile. A FILE with the name of another target is refused.

Without TARGET, FILE has stored specs with the names of their targets: the output of "specs list -o yaml", or several documents. Nothing is
stored if one of them can't be read. Where the server refuses one, those before it are stored, and the error says how many. --any-version leaves
out their etags, to store what was written down earlier or elsewhere.`,
		Example: "  setpoint specs set clusters/demo/namespaces/shop/targets/web -f hpa.yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE:    c.set,
	}
	set.Flags().BoolVar(&c.anyVersion, "any-version", false, "store it whatever version is stored now: the file's etags do not count")
	set.Flags().StringVarP(&c.file, "file", "f", "", "`file` of the spec, - for standard input (required)")
	remove := &cobra.Command{
		Use:   "delete TARGET",
		Short: "Delete the stored spec of a target and its observations",
		Args:  cobra.ExactArgs(1),
		RunE:  c.delete,
	}
	remove.Flags().StringVar(&c.etag, "etag", "", "delete this version only; empty deletes any")
	promote := &cobra.Command{
		Use:   "promote TARGET SHADOW",
		Short: "Make a shadow of the stored spec the spec, which becomes the shadow of that name",
		Long: `Make a shadow of the stored spec the spec itself. Each goes on with its own history, so its windows are those that it had
as a shadow. The former spec becomes the shadow of that name: the same command takes the promotion back.`,
		Example: "  setpoint specs promote clusters/demo/namespaces/shop/targets/web next --if 'different < 2 % over 7 days'",
		Args:    cobra.ExactArgs(2),
		RunE:    c.promote,
	}
	promote.Flags().StringVar(&c.condition, "if", "", "`condition` that must have held, such as \"different < 2 % over 7 days\" or \"replicas < 105 % over 12 hours\"; without the flag it is promoted in any case")
	promote.Flags().StringVar(&c.etag, "etag", "", "promote in this version of the stored spec only; empty takes the current one")
	poll := &cobra.Command{
		Use:     "poll TARGET",
		Short:   "Get a recommendation from the stored spec and observations of a target",
		Example: "  setpoint specs poll clusters/demo/namespaces/shop/targets/web",
		Args:    cobra.ExactArgs(1),
		RunE:    c.poll,
	}
	poll.Flags().Int32Var(&c.current, "current-replicas", -1, "current replicas of the target; a negative number means the observed ones")
	cmd.AddCommand(list, set, remove, promote, poll, &cobra.Command{
		Use:   "get TARGET",
		Short: "Show the stored spec of a target",
		Args:  cobra.ExactArgs(1),
		RunE:  c.get,
	})
	takeShort(cmd)
	return cmd
}

func (c *specsCommand) list(cmd *cobra.Command, args []string) error {
	req := &setpointv1.ListTargetSpecsRequest{Parent: listing.Everywhere}
	if len(args) > 0 {
		req.Parent = target.Namespaces(args[0])
	}
	var all listing.List[*setpointv1.TargetSpec]
	err := c.call(func(client setpointv1.TargetServiceClient) (err error) {
		all, err = listing.First(c.limit, listing.Specs(cmd.Context(), client, req))
		return err
	})
	if err != nil {
		return err
	}
	defer all.LeftOut(cmd, "specs")
	return c.showAll(cmd, &setpointv1.ListTargetSpecsResponse{TargetSpecs: all.Items, NextPageToken: all.Next})
}

func (c *specsCommand) showAll(cmd *cobra.Command, all *setpointv1.ListTargetSpecsResponse) error {
	return c.write(cmd.OutOrStdout(), all, func(w io.Writer) {
		fmt.Fprintln(w, "TARGET\tMIN\tMAX\tMETRICS\tUPDATED\tBY")
		for _, s := range all.GetTargetSpecs() {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%s\n", s.GetName(), validation.MinReplicas(s.GetSpec()), s.GetSpec().GetMaxReplicas(), len(s.GetSpec().GetMetrics()),
				instant(s.GetUpdateTime()), author(s))
		}
	})
}

func (c *specsCommand) get(cmd *cobra.Command, args []string) error {
	return c.call(func(client setpointv1.TargetServiceClient) error {
		resp, err := client.GetTargetSpec(cmd.Context(), &setpointv1.GetTargetSpecRequest{Name: args[0]})
		if err != nil {
			return err
		}
		return c.show(cmd, resp.GetTargetSpec())
	})
}

func (c *specsCommand) set(cmd *cobra.Command, args []string) error {
	if c.file == "" {
		return cli.BadInput(errors.New("--file is required; see setpoint specs set --help"))
	}
	stored, err := c.read(cmd, args)
	if err != nil {
		return err
	}
	return c.call(func(client setpointv1.TargetServiceClient) error {
		for i, spec := range stored {
			resp, err := client.SetTargetSpec(cmd.Context(), &setpointv1.SetTargetSpecRequest{Name: spec.GetName(), TargetSpec: spec})
			if err != nil && len(args) == 0 {
				return fmt.Errorf("of the %d specs of the file %s; %s: %w", len(stored), storedBefore(i), spec.GetName(), err)
			}
			if err != nil {
				return err
			}
			stored[i] = resp.GetTargetSpec()
		}
		if len(args) == 0 {
			return c.showAll(cmd, &setpointv1.ListTargetSpecsResponse{TargetSpecs: stored})
		}
		return c.show(cmd, stored[0])
	})
}

// storedBefore says how many specs of a file are stored before the one that was refused.
func storedBefore(n int) string {
	switch n {
	case 0:
		return "none is stored"
	case 1:
		return "the first is stored"
	}
	return fmt.Sprintf("the first %d are stored", n)
}

// read reads the file: the one spec of a target, or several that name theirs.
func (c *specsCommand) read(cmd *cobra.Command, args []string) ([]*setpointv1.TargetSpec, error) {
	var stored []*setpointv1.TargetSpec
	if len(args) > 0 {
		read, err := specfile.Read(cmd, c.file)
		if err != nil {
			return nil, err
		}
		if name := read.Stored.GetName(); name != "" && name != args[0] {
			return nil, cli.BadInput(fmt.Errorf("%s: is the spec of %s, not of %s: to store it there, leave out its name and its etag", c.file, name, args[0]))
		}
		read.Stored.Name = args[0]
		stored = append(stored, read.Stored)
	} else {
		all, err := specfile.ReadAll(cmd, c.file)
		if err != nil {
			return nil, err
		}
		named := make(map[string]bool, len(all))
		for _, read := range all {
			name := read.Stored.GetName()
			switch _, valid := target.Parse(name); {
			case !valid:
				return nil, cli.BadInput(fmt.Errorf("%s: %s/%s names no target: give TARGET, or name: clusters/CLUSTER/namespaces/NAMESPACE/targets/TARGET beside its spec", c.file, read.Object.Namespace, read.Object.Name))
			case named[name]:
				return nil, cli.BadInput(fmt.Errorf("%s: has two specs of %s", c.file, name))
			}
			named[name] = true
			stored = append(stored, read.Stored)
		}
	}
	for _, spec := range stored {
		if c.anyVersion {
			spec.Etag = ""
		}
	}
	return stored, nil
}

func (c *specsCommand) show(cmd *cobra.Command, s *setpointv1.TargetSpec) error {
	return c.write(cmd.OutOrStdout(), s, func(w io.Writer) {
		fmt.Fprintf(w, "Target\t%s\n", s.GetName())
		fmt.Fprintf(w, "Replicas\t%d to %d\n", validation.MinReplicas(s.GetSpec()), s.GetSpec().GetMaxReplicas())
		fmt.Fprintf(w, "Metrics\t%d\n", len(s.GetSpec().GetMetrics()))
		if s.GetStages() != nil {
			fmt.Fprintf(w, "Stages\t%s\n", setStages(s.GetStages()))
		}
		for _, shadow := range s.GetShadows() {
			fmt.Fprintf(w, "Shadow\t%s: %d metrics\n", shadow.GetName(), len(shadow.GetSpec().GetMetrics()))
		}
		if f := s.GetFleet(); f != nil {
			fmt.Fprintf(w, "Fleet\t%d members: setpoint fleet show %s\n", len(f.GetMembers()), s.GetName())
		}
		fmt.Fprintf(w, "Created\t%s\n", instant(s.GetCreateTime()))
		fmt.Fprintf(w, "Updated\t%s by %s\n", instant(s.GetUpdateTime()), author(s))
		fmt.Fprintf(w, "Etag\t%s\n", s.GetEtag())
	})
}

func (c *specsCommand) delete(cmd *cobra.Command, args []string) error {
	return c.call(func(client setpointv1.TargetServiceClient) error {
		if _, err := client.DeleteTargetSpec(cmd.Context(), &setpointv1.DeleteTargetSpecRequest{Name: args[0], Etag: c.etag}); status.Code(err) == codes.NotFound {
			return errors.New("no spec is stored of " + args[0] + ": there is nothing to delete; setpoint specs list has those that are stored")
		} else if err != nil {
			return err
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "spec of "+args[0]+" deleted")
		return err
	})
}

func (c *specsCommand) promote(cmd *cobra.Command, args []string) error {
	if cmd.Flags().Changed("if") && strings.TrimSpace(c.condition) == "" { // a script's empty variable
		return cli.BadInput(errors.New("--if: is empty; without the flag it is promoted in any case"))
	}
	return c.call(func(client setpointv1.TargetServiceClient) error {
		etag := c.etag
		if etag == "" {
			resp, err := client.GetTargetSpec(cmd.Context(), &setpointv1.GetTargetSpecRequest{Name: args[0]})
			if err != nil {
				return err
			}
			etag = resp.GetTargetSpec().GetEtag()
		}
		resp, err := client.PromoteShadow(cmd.Context(), &setpointv1.PromoteShadowRequest{Name: args[0], Shadow: args[1], Etag: etag, Condition: c.condition})
		if status.Code(err) == codes.FailedPrecondition { // a negative result
			return errors.New(status.Convert(err).Message())
		}
		if err != nil {
			return err
		}
		return c.show(cmd, resp.GetTargetSpec())
	})
}

// poll prints a recommendation. If the count can't be computed that is a negative result.
func (c *specsCommand) poll(cmd *cobra.Command, args []string) error {
	req := &setpointv1.GetRecommendationRequest{Target: args[0]}
	if c.current >= 0 {
		req.CurrentReplicas = &c.current
	}
	var resp *setpointv1.GetRecommendationResponse
	err := c.server.Call(func(conn grpc.ClientConnInterface) (err error) {
		resp, err = setpointv1.NewRecommendationServiceClient(conn).GetRecommendation(cmd.Context(), req)
		return err
	})
	if status.Code(err) == codes.FailedPrecondition {
		return errors.New(status.Convert(err).Message())
	}
	if err != nil {
		return err
	}
	r := resp.GetRecommendation()
	return c.write(cmd.OutOrStdout(), r, func(w io.Writer) {
		fmt.Fprintf(w, "Replicas\t%d of %d (%d to %d)\n", r.GetDesiredReplicas(), r.GetCurrentReplicas(), r.GetMinReplicas(), r.GetMaxReplicas())
		if r.GetReason() != "" {
			fmt.Fprintf(w, "Reason\t%s\n", printable.Text(r.GetReason()))
		}
		for _, row := range stageRows(r.GetAdjustments(), r.PlainDesiredReplicas, r.GetDesiredReplicas()) {
			fmt.Fprintf(w, "%s\t%s\n", row[0], printable.Text(row[1]))
		}
		fmt.Fprintf(w, "Decided\t%s\n", instant(r.GetEvaluationTime()))
		for _, condition := range r.GetStatus().GetConditions() {
			fmt.Fprintf(w, "%s\t%s %s: %s\n", condition.GetType(), condition.GetStatus(), condition.GetReason(), printable.Text(condition.GetMessage()))
		}
	})
}

// setStages names the stages that are set, and how many there are of those that may be several.
func setStages(s *setpointv1.Stages) string {
	var all []string
	m := s.ProtoReflect()
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if !m.Has(f) {
			continue
		}
		name := f.JSONName()
		if f.IsList() {
			name += fmt.Sprintf(" (%d)", m.Get(f).List().Len())
		}
		all = append(all, name)
	}
	if all == nil {
		return "none is set"
	}
	return strings.Join(all, ", ")
}
