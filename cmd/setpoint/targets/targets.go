// Package targets has the commands on the targets of a server and their stored specs.
package targets

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/connection"
	"github.com/setpoint-dev/setpoint/cmd/internal/listing"
	"github.com/setpoint-dev/setpoint/cmd/internal/overridecmd"
	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/server/apierror"
)

// targetsCommand is shared by the commands on targets.
type targetsCommand struct {
	server *connection.Settings
	output *cli.OutputFlag
	// The maximum of listed items, 0 for all.
	maxTargets, maxDecisions int
}

// Commands are the package's.
func Commands() []*cobra.Command { return append(others(), newTargets()) }

func newTargets() *cobra.Command {
	c := &targetsCommand{output: cli.NewOutputFlag(cli.AsTable, cli.AsJSON, cli.AsYAML)}
	cmd := &cobra.Command{
		Use:   "targets",
		Short: "List, show, explain, watch, export and delete the targets of a server",
		Long:  "List, show, explain, watch, export and delete the targets of a server. " + targetForms,
	}
	c.server = connection.Bind(cmd.PersistentFlags(), connection.DefaultServer, "the server")
	cmd.PersistentFlags().VarP(c.output, "output", "o", "form of the output: table, json or yaml")

	decisions := &cobra.Command{
		Use:   "decisions TARGET",
		Short: "List the recent decisions on a target, newest first",
		Args:  cobra.ExactArgs(1),
		RunE:  c.decisions,
	}
	listing.Limit(decisions, &c.maxDecisions, 50, "decisions")
	cmd.AddCommand(otherTargets(c)...)
	cmd.AddCommand(newList(c), decisions, newWatch(c), newExplain(c),
		&cobra.Command{
			Use:   "get TARGET",
			Short: "Show a target: metrics, conditions, last decision, and what comes next",
			Args:  cobra.ExactArgs(1),
			RunE:  c.get,
		},
		&cobra.Command{
			Use:   "delete TARGET",
			Short: "Delete a target's history, status and decisions",
			Args:  cobra.ExactArgs(1),
			RunE:  c.delete,
		})
	takeShort(cmd)
	return cmd
}

// takeShort has the commands below one take targets as CLUSTER/NAMESPACE/TARGET, too.
func takeShort(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		run := sub.RunE
		sub.RunE = func(cmd *cobra.Command, args []string) error {
			for i := range args {
				args[i] = target.Whole(args[i])
			}
			return run(cmd, args)
		}
	}
}

// targetForms says how a target is named.
const targetForms = "TARGET is clusters/CLUSTER/namespaces/NAMESPACE/targets/TARGET,\nor CLUSTER/NAMESPACE/TARGET for short."

// call connects and passes the client to do.
func (c *targetsCommand) call(do func(setpointv1.TargetServiceClient) error) error {
	return c.server.Call(func(conn grpc.ClientConnInterface) error { return do(setpointv1.NewTargetServiceClient(conn)) })
}

// checkRequest refuses what the server would refuse, before a connection is made.
func checkRequest(req proto.Message) error { return apierror.OfStructure(req) }

func (c *targetsCommand) get(cmd *cobra.Command, args []string) error {
	return c.server.Call(func(conn grpc.ClientConnInterface) error {
		resp, err := setpointv1.NewTargetServiceClient(conn).GetTarget(cmd.Context(), &setpointv1.GetTargetRequest{Name: args[0]})
		if err != nil {
			return err
		}
		t := resp.GetTarget()
		var overrides []string
		if c.output.Form == cli.AsTable { // those that were created since the last decision, too; an older server has none
			overrides, _ = overridecmd.Of(cmd.Context(), conn, t.GetName(), time.Now())
		}
		return c.write(cmd.OutOrStdout(), t, func(w io.Writer) { writeTarget(w, t, overrides) })
	})
}

func (c *targetsCommand) delete(cmd *cobra.Command, args []string) error {
	return c.call(func(client setpointv1.TargetServiceClient) error {
		if _, err := client.DeleteTarget(cmd.Context(), &setpointv1.DeleteTargetRequest{Name: args[0]}); err != nil {
			return err
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), args[0]+" deleted")
		return err
	})
}

func (c *targetsCommand) decisions(cmd *cobra.Command, args []string) error {
	req := &setpointv1.ListDecisionsRequest{Parent: args[0]}
	var all listing.List[*setpointv1.Decision]
	err := c.call(func(client setpointv1.TargetServiceClient) (err error) {
		all, err = listing.First(c.maxDecisions, func(size int32, token string) ([]*setpointv1.Decision, string, error) {
			req.PageSize, req.PageToken = size, token
			page, err := client.ListDecisions(cmd.Context(), req)
			return page.GetDecisions(), page.GetNextPageToken(), err
		})
		return err
	})
	if err != nil {
		return err
	}
	defer all.LeftOut(cmd, "decisions")
	answer := &setpointv1.ListDecisionsResponse{Decisions: all.Items, NextPageToken: all.Next}
	return c.write(cmd.OutOrStdout(), answer, func(w io.Writer) {
		fmt.Fprintln(w, "TIME\tREPLICAS\tOUTCOME\tREASON")
		for _, d := range all.Items {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", instant(d.GetTime()), replicas(d), outcome(args[0], d), printable.Text(why(args[0], d)))
		}
	})
}

// write writes a message in the selected form, or the table.
func (c *targetsCommand) write(w io.Writer, msg proto.Message, table func(io.Writer)) error {
	if c.output.Form != cli.AsTable {
		return cli.WriteMessage(w, c.output.Form, msg)
	}
	columns := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	table(columns)
	return columns.Flush()
}

// replicas are the counts of a decision, nil: there is none. A count of 0 that could not be read is none.
func replicas(d *setpointv1.Decision) string {
	if d == nil || d.GetCurrentReplicas() == 0 && slices.Contains(d.GetStates(), "SCALE_UNREADABLE") {
		return unknown
	}
	if d.GetCurrentReplicas() == d.GetDesiredReplicas() {
		return fmt.Sprint(d.GetCurrentReplicas())
	}
	return fmt.Sprintf("%d -> %d", d.GetCurrentReplicas(), d.GetDesiredReplicas())
}

func instant(t *timestamppb.Timestamp) string {
	if t == nil {
		return "never"
	}
	return t.AsTime().Format(time.RFC3339)
}
