package serve

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/cmd/internal/daemon"
)

// NewHealth checks a process on this machine, for images without other programs.
func NewHealth() *cobra.Command {
	var address func() string
	live, timeout := false, 2*time.Second
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask a server or agent on this machine whether it is ready",
		Long: `Ask a server or agent on this machine, at its admin address, whether it is ready for
calls, or with --live only whether it is alive. The exit code is 1 if it is not. The
HEALTHCHECK of the image runs this command.

SETPOINT_ADMIN_ADDRESS sets the address here as it does for the server and the agents.`,
		Example: `  setpoint health
  setpoint health --live --admin-address=127.0.0.1:9092   # an agent`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			page := "/readyz"
			if live {
				page = "/healthz"
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return askHealth(ctx, cmd.OutOrStdout(), address(), page)
		},
	}
	address = daemon.BindAdmin(cmd, "`host:port` that the server or agent has as its --admin-address", defaultSettings().AdminAddress)
	cmd.Flags().BoolVar(&live, "live", live, "check liveness instead of readiness")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "timeout for the answer")
	return cmd
}

// askHealth prints the answer, and returns an error unless it is yes.
func askHealth(ctx context.Context, out io.Writer, address, page string) error {
	question, err := daemon.Question(ctx, address, page)
	if err != nil {
		return err
	}
	response, err := daemon.Asking.Do(question)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	if err != nil {
		return err
	}
	answer := strings.TrimSpace(string(body))
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", page, response.Status, answer)
	}
	_, err = fmt.Fprintln(out, answer)
	return err
}
