package agentcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/clients/agent/shadow"
	"github.com/setpoint-dev/setpoint/clients/agent/status"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/daemon"
)

// ShadowPath is where an agent's admin address serves the report of its shadows.
const ShadowPath = "/shadow"

// Bounds on answers of a running agent: time and bytes.
const (
	answerTimeout  = 30 * time.Second
	maxAnswerBytes = 256 << 20
)

// answerJSON serves the current value as JSON.
func answerJSON(now func() any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(now())
	})
}

// askAgent fetches a JSON page from the agent at an admin address. command is the typed
// command, for errors.
func askAgent(cmd *cobra.Command, command, address, page string, into any) error {
	if address == "" {
		return cli.BadInput(fmt.Errorf("%s: --%s is required: the address of the agent to ask", command, daemon.AdminFlag))
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), answerTimeout)
	defer cancel()
	question, err := daemon.Question(ctx, address, page)
	if err != nil {
		return err
	}
	answer, err := daemon.Asking.Do(question)
	if err != nil {
		return fmt.Errorf("no agent answers at --%s %s: %w", daemon.AdminFlag, address, err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s: is an agent there?", question.URL, answer.Status)
	}
	bounded := &io.LimitedReader{R: answer.Body, N: maxAnswerBytes}
	if err := json.NewDecoder(bounded).Decode(into); err != nil {
		if bounded.N == 0 {
			err = errors.New("the answer is larger than 256 MiB")
		}
		return fmt.Errorf("%s: %w", question.URL, err)
	}
	return nil
}

// reportFlags are the flags of the command agent for a report of the shadows.
type reportFlags struct {
	all, differing bool
	output         *cli.OutputFlag
}

func (r *reportFlags) bind(flags *pflag.FlagSet) {
	flags.BoolVar(&r.all, "report", false, "print how far a running agent's shadows (--admin-address) agree with the acting controller, and exit")
	flags.BoolVar(&r.differing, "report-differing", false, "print only the shadows that differ or did, largest difference first, and why; then exit")
	flags.VarP(r.output, "output", "o", "form of the report: text or json")
}

// print prints the report of the agent at the admin address.
func (r *reportFlags) print(cmd *cobra.Command, adminAddress string) error {
	var report shadow.Report
	if err := askAgent(cmd, "--report", adminAddress, ShadowPath, &report); err != nil {
		return err
	}
	switch {
	case r.output.Form == cli.AsText:
		write := report.WriteText
		if r.differing {
			write = report.WriteDiffering
		}
		if err := write(cmd.OutOrStdout()); err != nil || len(report.Objects) > 0 {
			return err
		}
		// Why there is nothing: as of an agent that stands by.
		var now status.Status
		if err := askAgent(cmd, "--report", adminAddress, statusJSON, &now); err != nil || now.Problem == "" {
			return err
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), now.Problem)
		return err
	case r.differing:
		return cli.WriteValue(cmd.OutOrStdout(), cli.AsJSON, report.Differing())
	}
	return cli.WriteValue(cmd.OutOrStdout(), cli.AsJSON, &report)
}
