package serve

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/config"
)

// NewHealth checks a process on this machine, for images without other programs.
func NewHealth() *cobra.Command {
	const flag = "admin-address"
	address, live, timeout := defaultSettings().AdminAddress, false, 2*time.Second
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
			if set := os.Getenv(config.Variable(flag)); set != "" && !cmd.Flags().Changed(flag) {
				address = set
			}
			page := "/readyz"
			if live {
				page = "/healthz"
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return askHealth(ctx, cmd.OutOrStdout(), address, page)
		},
	}
	cmd.Flags().StringVar(&address, flag, address, "`host:port` that the server or agent has as its --admin-address")
	cmd.Flags().BoolVar(&live, "live", live, "check liveness instead of readiness")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "timeout for the answer")
	return cmd
}

// askHealth prints the answer, and returns an error unless it is yes.
func askHealth(ctx context.Context, out io.Writer, address, page string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return cli.BadInput(fmt.Errorf("--admin-address: %w", err))
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		host = "127.0.0.1" // all interfaces include this one
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+page, http.NoBody)
	if err != nil {
		return cli.BadInput(fmt.Errorf("--admin-address: %w", err))
	}
	// No proxy: it is this machine.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
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
