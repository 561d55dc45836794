// Package fleetcmd is the command fleet: of the program, and of the plugin of kubectl.
package fleetcmd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/connection"
	"github.com/setpoint-dev/setpoint/cmd/internal/listing"
	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/internal/target"
)

// command is shared by the commands on fleets.
type command struct {
	server *connection.Settings
	output *cli.OutputFlag
	limit  int
	// What create takes.
	created creation
}

// named says how a fleet or a member is named.
const named = "clusters/CLUSTER/namespaces/NAMESPACE/targets/TARGET, or CLUSTER/NAMESPACE/TARGET for short"

// New returns the command.
func New() *cobra.Command {
	c := &command{output: cli.NewOutputFlag(cli.AsTable, cli.AsJSON, cli.AsYAML)}
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Scale several targets as one: create, list, show, drain, promote and delete fleets",
		Long: "Scale several targets, such as a workload that runs in several clusters, as one: their sum has a spec, and each\n" +
			"member gets a share of the count. A fleet is a stored spec with members; the agents of the members name it.\n" +
			"FLEET is " + named + ".",
	}
	c.server = connection.Bind(cmd.PersistentFlags(), connection.DefaultServer, "the server")
	cmd.PersistentFlags().VarP(c.output, "output", "o", "form of the output: table, json or yaml")

	list := &cobra.Command{
		Use:   "list [clusters/CLUSTER/namespaces/NAMESPACE]",
		Short: "List the fleets that are stored, with counts, members and what is the matter",
		Long: "List the fleets that are stored, with the count, the sum of the shares, the members by state, and what is the matter.\n" +
			"- stands for all clusters or namespaces. As json or yaml it lists the stored specs as\n" +
			"targetSpecs, and as states for each its name, what is the matter (wrong), and what show has (fleet).",
		Example: "  setpoint fleet list clusters/-/namespaces/shop",
		Args:    cobra.MaximumNArgs(1),
		RunE:    c.list,
	}
	listing.Limit(list, &c.limit, 1000, "fleets")
	cmd.AddCommand(c.newCreate(), list,
		&cobra.Command{
			Use:     "show FLEET",
			Short:   "Show a fleet: its count, the shares, the state of each member, and why",
			Example: "  setpoint fleet show all/shop/web",
			Args:    cobra.ExactArgs(1),
			RunE:    c.show,
		},
		&cobra.Command{
			Use:   "drain FLEET MEMBER",
			Short: "Make a member become empty: its replicas move to the others, as they become ready",
			Long: "Make a member become empty: each decision of the fleet moves one of its replicas to the others, or as many as\n" +
				"--max-moves of the fleet says. Its weight stays for promote. MEMBER may be its cluster alone, if that has one only.",
			Example: "  setpoint fleet drain all/shop/web west",
			Args:    cobra.ExactArgs(2),
			RunE:    func(cmd *cobra.Command, args []string) error { return c.setDrained(cmd, args[0], args[1], true) },
		},
		&cobra.Command{
			Use:   "promote FLEET MEMBER",
			Short: "Make a member that was drained take part again",
			Long: "Make a member that was drained take part again: it gets replicas as the count grows, and at once only if\n" +
				"--max-moves of the fleet allows moves. MEMBER may be its cluster alone, if that has one only.",
			Example: "  setpoint fleet promote all/shop/web west",
			Args:    cobra.ExactArgs(2),
			RunE:    func(cmd *cobra.Command, args []string) error { return c.setDrained(cmd, args[0], args[1], false) },
		},
		&cobra.Command{
			Use:   "delete FLEET",
			Short: "Delete a fleet; its members keep their counts until they no longer name it",
			Args:  cobra.ExactArgs(1),
			RunE:  c.delete,
		})
	return cmd
}

// nameOf is the whole name of a fleet or a member.
func nameOf(what, text string) (string, error) {
	if name := target.Whole(text); name != text {
		return name, nil
	} else if _, ok := target.Parse(text); ok {
		return text, nil
	}
	return "", fmt.Errorf("%q is no name of a %s: it must be %s", text, what, named)
}

// short is a name for tables: CLUSTER/NAMESPACE/TARGET.
func short(name string) string {
	if n, ok := target.Parse(name); ok {
		return n.Cluster + "/" + n.Namespace + "/" + n.Target
	}
	return printable.Text(name)
}

// fleet returns a stored spec that is a fleet's.
func fleet(ctx context.Context, client setpointv1.TargetServiceClient, name string) (*setpointv1.TargetSpec, error) {
	resp, err := client.GetTargetSpec(ctx, &setpointv1.GetTargetSpecRequest{Name: name})
	switch {
	case status.Code(err) == codes.NotFound:
		return nil, noFleet(name)
	case err != nil:
		return nil, err
	case resp.GetTargetSpec().GetFleet() == nil:
		return nil, fmt.Errorf("%s is a stored spec without members, and no fleet: setpoint fleet list has the fleets", name)
	}
	return resp.GetTargetSpec(), nil
}

func noFleet(name string) error {
	return fmt.Errorf("there is no fleet %s that you may read: setpoint fleet list has the fleets", name)
}

// memberOf is the index of a member, which may be named by its cluster.
func memberOf(f *setpointv1.FleetSpec, text string) (int, error) {
	var found, all []string
	name, _ := nameOf("member", text)
	for _, m := range f.GetMembers() {
		of, _ := target.Parse(m.GetTarget())
		if m.GetTarget() == name || of.Cluster == text {
			found = append(found, m.GetTarget())
		}
		all = append(all, short(m.GetTarget()))
	}
	switch {
	case len(found) > 1:
		return 0, fmt.Errorf("the cluster %s has %d members: name one as CLUSTER/NAMESPACE/TARGET", text, len(found))
	case len(found) == 0:
		return 0, fmt.Errorf("the fleet has no member %q; its members are %s", text, printable.Some(all, mostNamed))
	}
	return slices.IndexFunc(f.GetMembers(), func(m *setpointv1.FleetMember) bool { return m.GetTarget() == found[0] }), nil
}

// mostNamed is how many members an error names.
const mostNamed = 8

// tries is how often a change is made anew on a spec that others changed meanwhile.
const tries = 3

// setDrained drains a member, or lets it take part again. The spec's etag keeps changes that others make meanwhile.
func (c *command) setDrained(cmd *cobra.Command, fleetName, member string, drained bool) error {
	name, err := nameOf("fleet", fleetName)
	if err != nil {
		return cli.BadInput(err)
	}
	return c.ask(func(client setpointv1.TargetServiceClient) error {
		for try := 1; ; try++ {
			spec, err := fleet(cmd.Context(), client, name)
			if err != nil {
				return err
			}
			i, err := memberOf(spec.GetFleet(), member)
			if err != nil {
				return err
			}
			one := spec.GetFleet().GetMembers()[i]
			said := map[bool]string{true: "becomes empty", false: "takes part again"}[drained]
			if one.GetDrained() == drained {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s already %s\n", short(one.GetTarget()), said)
				return err
			}
			one.Drained = drained
			_, err = client.SetTargetSpec(cmd.Context(), &setpointv1.SetTargetSpecRequest{Name: name, TargetSpec: spec})
			if status.Code(err) == codes.Aborted && try < tries {
				continue
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s: see setpoint fleet show %s\n", short(one.GetTarget()), said, short(name))
			return err
		}
	})
}

func (c *command) delete(cmd *cobra.Command, args []string) error {
	name, err := nameOf("fleet", args[0])
	if err != nil {
		return cli.BadInput(err)
	}
	return c.ask(func(client setpointv1.TargetServiceClient) error {
		spec, err := fleet(cmd.Context(), client, name) // another stored spec stays
		if err != nil {
			return err
		}
		if _, err := client.DeleteTargetSpec(cmd.Context(), &setpointv1.DeleteTargetSpecRequest{Name: name, Etag: spec.GetEtag()}); err != nil {
			return err
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "fleet "+name+" deleted; members that name it keep their counts")
		return err
	})
}

func (c *command) list(cmd *cobra.Command, args []string) error {
	req := &setpointv1.ListTargetSpecsRequest{Parent: listing.Everywhere, FleetsOnly: true}
	if len(args) > 0 {
		req.Parent = target.Namespaces(args[0])
	}
	var all listing.List[*setpointv1.TargetSpec]
	var states []state
	if err := c.server.Call(func(conn grpc.ClientConnInterface) (err error) {
		if all, err = listing.Best(c.limit, nil, listing.Specs(cmd.Context(), setpointv1.NewTargetServiceClient(conn), req)); err != nil {
			return err
		}
		for some := range slices.Chunk(all.Items, listing.LargestPage) {
			read, err := statesOf(cmd.Context(), setpointv1.NewFleetServiceClient(conn), some)
			if err != nil {
				return err
			}
			states = append(states, read...)
		}
		return nil
	}); err != nil {
		return err
	}
	defer all.LeftOut(cmd, "fleets")
	switch {
	case c.output.Form != cli.AsTable:
		return writeAll(cmd.OutOrStdout(), c.output.Form, all.Items, states, time.Now())
	case len(all.Items) == 0:
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "no fleets that you may read")
		return err
	}
	return writeList(cmd.OutOrStdout(), all.Items, states, time.Now())
}

func onLost(f *setpointv1.FleetSpec) string {
	if f.GetOnLost() == "" {
		return "hold"
	}
	return strings.ToLower(f.GetOnLost())
}

// ask connects and passes the client of stored specs to do.
func (c *command) ask(do func(setpointv1.TargetServiceClient) error) error {
	return c.server.Call(func(conn grpc.ClientConnInterface) error { return do(setpointv1.NewTargetServiceClient(conn)) })
}
