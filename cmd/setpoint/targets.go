package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// defaultServer is where setpoint serve serves gRPC by default.
const defaultServer = "127.0.0.1:9090"

// asTable is the text form of lists.
const asTable = "table"

// targetsCommand holds what the commands on targets share.
type targetsCommand struct {
	address *string
	output  *outputFlag
	limit   int
}

func newTargets() *cobra.Command {
	c := &targetsCommand{output: newOutputFlag(asTable, asJSON, asYAML)}
	cmd := &cobra.Command{
		Use:   "targets",
		Short: "List, show and forget the targets that a server keeps",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.address = addServerFlag(cmd, defaultServer, "the server")
	cmd.PersistentFlags().VarP(c.output, "output", "o", "form of the output: table, json or yaml")

	list := &cobra.Command{
		Use:     "list [clusters/CLUSTER/namespaces/NAMESPACE]",
		Short:   "List targets; - stands for all clusters or namespaces",
		Example: "  setpoint targets list\n  setpoint targets list clusters/eu-1/namespaces/-",
		Args:    usageArgs(cobra.MaximumNArgs(1)),
		RunE:    c.list,
	}
	list.Flags().IntVar(&c.limit, "limit", 1000, "most targets to list; 0 lists all")
	decisions := &cobra.Command{
		Use:   "decisions TARGET",
		Short: "List the recent decisions on a target, newest first",
		Args:  usageArgs(cobra.ExactArgs(1)),
		RunE:  c.decisions,
	}
	decisions.Flags().IntVar(&c.limit, "limit", 50, "most decisions to list; 0 lists all")
	cmd.AddCommand(list, decisions,
		&cobra.Command{
			Use:   "get TARGET",
			Short: "Show a target: status, last decision and history",
			Args:  usageArgs(cobra.ExactArgs(1)),
			RunE:  c.get,
		},
		&cobra.Command{
			Use:   "delete TARGET",
			Short: "Forget a target's history, status and decisions",
			Args:  usageArgs(cobra.ExactArgs(1)),
			RunE:  c.delete,
		})
	return cmd
}

// call connects and hands the client on.
func (c *targetsCommand) call(do func(setpointv1.TargetServiceClient) error) error {
	conn, err := dial(*c.address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return do(setpointv1.NewTargetServiceClient(conn))
}

// page bounds a page by what is left to list.
func page(limit, have int) int32 {
	const largest = 1000
	if limit == 0 {
		return largest
	}
	return int32(min(largest, limit-have))
}

func (c *targetsCommand) list(cmd *cobra.Command, args []string) error {
	req := &setpointv1.ListTargetsRequest{Parent: "clusters/-/namespaces/-"}
	if len(args) > 0 {
		req.Parent = args[0]
	}
	all := &setpointv1.ListTargetsResponse{}
	err := c.call(func(client setpointv1.TargetServiceClient) error {
		for {
			req.PageSize = page(c.limit, len(all.GetTargets()))
			resp, err := client.ListTargets(cmd.Context(), req)
			if err != nil {
				return err
			}
			all.Targets = append(all.Targets, resp.GetTargets()...)
			all.NextPageToken = resp.GetNextPageToken()
			req.PageToken = resp.GetNextPageToken()
			if req.PageToken == "" || c.limit > 0 && len(all.GetTargets()) >= c.limit {
				return nil
			}
		}
	})
	if err != nil {
		return err
	}
	return c.write(cmd.OutOrStdout(), all, func(w io.Writer) {
		fmt.Fprintln(w, "TARGET\tREPLICAS\tABLE\tACTIVE\tLIMITED\tUPDATED")
		for _, t := range all.GetTargets() {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", t.GetName(), replicas(t.GetLastDecision()),
				reason(t.GetStatus(), "AbleToScale"), reason(t.GetStatus(), "ScalingActive"), reason(t.GetStatus(), "ScalingLimited"),
				instant(t.GetUpdateTime()))
		}
	})
}

func (c *targetsCommand) get(cmd *cobra.Command, args []string) error {
	return c.call(func(client setpointv1.TargetServiceClient) error {
		resp, err := client.GetTarget(cmd.Context(), &setpointv1.GetTargetRequest{Name: args[0]})
		if err != nil {
			return err
		}
		t := resp.GetTarget()
		return c.write(cmd.OutOrStdout(), t, func(w io.Writer) {
			ref := t.GetScaleTargetRef()
			fmt.Fprintf(w, "Target\t%s\n", t.GetName())
			fmt.Fprintf(w, "Scales\t%s %s\n", ref.GetKind(), ref.GetName())
			fmt.Fprintf(w, "Replicas\t%s\n", replicas(t.GetLastDecision()))
			fmt.Fprintf(w, "Outcome\t%s\n", t.GetLastDecision().GetOutcome())
			fmt.Fprintf(w, "Updated\t%s\n", instant(t.GetUpdateTime()))
			fmt.Fprintf(w, "Last scaled\t%s\n", instant(t.GetStatus().GetLastScaleTime()))
			fmt.Fprintf(w, "History\t%d recommendations, %d scale-ups, %d scale-downs\n",
				len(t.GetHistory().GetRecommendations()), len(t.GetHistory().GetScaleUps()), len(t.GetHistory().GetScaleDowns()))
			for _, condition := range t.GetStatus().GetConditions() {
				fmt.Fprintf(w, "%s\t%s %s: %s\n", condition.GetType(), condition.GetStatus(), condition.GetReason(), condition.GetMessage())
			}
		})
	})
}

func (c *targetsCommand) delete(cmd *cobra.Command, args []string) error {
	return c.call(func(client setpointv1.TargetServiceClient) error {
		if _, err := client.DeleteTarget(cmd.Context(), &setpointv1.DeleteTargetRequest{Name: args[0]}); err != nil {
			return err
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), args[0]+" forgotten")
		return err
	})
}

func (c *targetsCommand) decisions(cmd *cobra.Command, args []string) error {
	req := &setpointv1.ListDecisionsRequest{Parent: args[0]}
	all := &setpointv1.ListDecisionsResponse{}
	err := c.call(func(client setpointv1.TargetServiceClient) error {
		for {
			req.PageSize = page(c.limit, len(all.GetDecisions()))
			resp, err := client.ListDecisions(cmd.Context(), req)
			if err != nil {
				return err
			}
			all.Decisions = append(all.Decisions, resp.GetDecisions()...)
			all.NextPageToken = resp.GetNextPageToken()
			req.PageToken = resp.GetNextPageToken()
			if req.PageToken == "" || c.limit > 0 && len(all.GetDecisions()) >= c.limit {
				return nil
			}
		}
	})
	if err != nil {
		return err
	}
	return c.write(cmd.OutOrStdout(), all, func(w io.Writer) {
		fmt.Fprintln(w, "TIME\tREPLICAS\tOUTCOME\tREASON\tERROR")
		for _, d := range all.GetDecisions() {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", instant(d.GetTime()), replicas(d), d.GetOutcome(), d.GetReason(), d.GetError())
		}
	})
}

// write writes a message in its form, or the table.
func (c *targetsCommand) write(w io.Writer, msg proto.Message, table func(io.Writer)) error {
	if c.output.form != asTable {
		return writeMessage(w, c.output.form, msg)
	}
	columns := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	table(columns)
	return columns.Flush()
}

func replicas(d *setpointv1.Decision) string {
	if d.GetCurrentReplicas() == d.GetDesiredReplicas() {
		return fmt.Sprint(d.GetCurrentReplicas())
	}
	return fmt.Sprintf("%d -> %d", d.GetCurrentReplicas(), d.GetDesiredReplicas())
}

// reason is that of a condition, "-" where it is not there.
func reason(s *setpointv1.HorizontalPodAutoscalerStatus, kind string) string {
	for _, c := range s.GetConditions() {
		if c.GetType() == kind {
			return c.GetReason()
		}
	}
	return "-"
}

func instant(t *timestamppb.Timestamp) string {
	if t == nil {
		return "never"
	}
	return t.AsTime().Format(time.RFC3339)
}
