//go:build !service

package targets

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/listing"
	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/replay"
)

// exportCommand has the flags of setpoint targets export.
type exportCommand struct {
	*targetsCommand
	since, from, to string
	file            string
	begin, end      time.Time
	// none is why nothing is kept of the first target of which the service knows it.
	none error
}

func newExport(of *targetsCommand) *cobra.Command {
	c := &exportCommand{targetsCommand: of}
	cmd := &cobra.Command{
		Use:   "export TARGET|NAMESPACE",
		Short: "Write what targets were asked as a recording, to make their decisions again",
		Long: `Write what targets were asked, and what the service decided, as a recording that
replay, backtest and check read, and scenarios of simulate and tune as a load.
NAMESPACE, clusters/C/namespaces/N, exports all of its targets.

The recording begins up to an hour before the first wanted decision, where the
target's history is kept, and has a scenario for each time without a gap. Standard
error tells the gaps. What other instances have not yet written, some ten minutes
for each instance, is missing.

Exits with 1 if there is nothing to export.`,
		Example: "  setpoint targets export clusters/demo/namespaces/shop/targets/web > web.jsonl\n  setpoint targets export --since 2h --file shop.jsonl.gz clusters/demo/namespaces/shop",
		Args:    cobra.ExactArgs(1),
		RunE:    c.run,
	}
	cmd.Flags().StringVar(&c.since, "since", "", "export the decisions since then: a `duration` like 2h or 1d, or an instant; empty: all that are kept")
	cmd.Flags().StringVar(&c.from, "from", "", "export the decisions since this `instant`, in RFC 3339")
	cmd.Flags().StringVar(&c.to, "to", "", "export the decisions before this `instant`, in RFC 3339")
	cmd.Flags().StringVar(&c.file, "file", "-", "write to this `file`, compressed if its name ends with .gz; - is standard output")
	cmd.MarkFlagsMutuallyExclusive("since", "from")
	return cmd
}

func (c *exportCommand) run(cmd *cobra.Command, args []string) (err error) {
	for _, flag := range []struct {
		name, text string
		to         *time.Time
	}{{"from", c.from, &c.begin}, {"to", c.to, &c.end}} {
		if flag.text == "" {
			continue
		}
		if *flag.to, err = time.Parse(time.RFC3339, flag.text); err != nil {
			return cli.BadInput(fmt.Errorf("--%s: %q is no instant such as %s: date, time and zone are needed", flag.name, flag.text, time.Now().UTC().Format(time.RFC3339)))
		}
	}
	now := time.Now()
	since, err := sinceTime(c.since, now)
	if err != nil {
		return err
	}
	begins := "--from"
	if since != nil {
		begins, c.begin = "--since", since.AsTime()
	}
	if !c.begin.IsZero() && c.begin.After(now) {
		return cli.BadInput(fmt.Errorf("%s: %s is in the future; it is %s", begins, c.begin.Format(time.RFC3339), now.UTC().Format(time.RFC3339)))
	}
	if !c.end.IsZero() && !c.begin.Before(c.end) {
		return cli.BadInput(fmt.Errorf("--to: %s is not after %s, %s", c.end.Format(time.RFC3339), begins, c.begin.Format(time.RFC3339)))
	}
	return c.call(func(client setpointv1.TargetServiceClient) error {
		targets := args
		if !strings.Contains(args[0], "/targets/") {
			if targets, err = names(cmd.Context(), client, target.Namespaces(args[0])); err != nil {
				return err
			}
			if len(targets) == 0 {
				return errors.New("no targets are known in " + args[0] + ", or none that you may read")
			}
		}
		return c.export(cmd, client, targets)
	})
}

// names are those of a namespace's targets.
func names(ctx context.Context, client setpointv1.TargetServiceClient, namespace string) (out []string, err error) {
	for t, err := range listing.Each(listing.Targets(ctx, client, &setpointv1.ListTargetsRequest{Parent: namespace})) {
		if err != nil {
			return nil, err
		}
		out = append(out, t.GetName())
	}
	return out, nil
}

// export writes the recordings of targets, one after the other.
func (c *exportCommand) export(cmd *cobra.Command, client setpointv1.TargetServiceClient, targets []string) (err error) {
	output := cmd.OutOrStdout()
	if c.file != "-" {
		file, end, failed := files.Replace(c.file, 0o644)
		if failed != nil {
			return cli.BadInput(fmt.Errorf("--file: %w", failed))
		}
		defer func() { err = end(err) }()
		output = file
	}
	if strings.HasSuffix(c.file, ".gz") {
		packed := gzip.NewWriter(output)
		defer func() { err = errors.Join(err, packed.Close()) }()
		output = packed
	}
	steps, recorded := 0, 0
	for _, name := range targets {
		n, err := c.one(cmd, client, name, output)
		if err != nil {
			return err
		}
		if steps += n; n > 0 {
			recorded++
		}
	}
	switch {
	case steps == 0 && c.none != nil:
		return c.none
	case steps == 0 && (!c.begin.IsZero() || !c.end.IsZero()):
		return errors.New("the service has kept no decisions of this time; without --since, --from and --to it exports all that it has, if any")
	case steps == 0:
		return errors.New("the service has kept no decisions: either they are of a kind that is not recorded (of fleets, of the older profiles, without the store, dry runs), or there was no room for the target (--recording-total-bytes), which then has them from its next decision on")
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%d decisions of %d targets\n", steps, recorded)
	if none := len(targets) - recorded; none > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "of %d others none of this time are kept\n", none)
	}
	return nil
}

// one writes the recording of a target, and returns how many decisions it has.
func (c *exportCommand) one(cmd *cobra.Command, client setpointv1.TargetServiceClient, target string, output io.Writer) (steps int, err error) {
	// A scenario may begin an hour earlier, and there are some minutes in a chunk.
	const earlier = 90 * time.Minute
	req := &setpointv1.GetRecordingRequest{Name: target, PageSize: 100}
	if !c.begin.IsZero() {
		req.StartTime = timestamppb.New(c.begin.Add(-earlier))
	}
	var chunks [][]byte
	for {
		page, err := client.GetRecording(cmd.Context(), req)
		if err != nil {
			return 0, err
		}
		chunks = append(chunks, page.GetChunks()...)
		if why := page.GetEmptyReason(); why != "" && c.none == nil {
			c.none = fmt.Errorf("the service has kept no decisions of %s: %s", target, why)
		}
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	exported := replay.Export(target, chunks, c.begin, c.end)
	if n := exported.Unreadable; n > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %d of %d chunks can't be read: %v\n", target, n, len(chunks), exported.Unreadability)
	}
	for _, gap := range exported.Gaps {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: gap from %s to %s: %s\n", target, gap.From.Format(time.RFC3339), gap.To.Format(time.RFC3339), gap.Why)
	}
	writer := recording.NewWriter(output)
	for _, scenario := range exported.Scenarios {
		if err := writer.Write(scenario); err != nil {
			return 0, fmt.Errorf("%s: %w", target, err)
		}
	}
	return exported.Steps, nil
}
