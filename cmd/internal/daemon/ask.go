package daemon

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/config"
)

// AdminFlag names the flag of the admin address.
const AdminFlag = "admin-address"

// Asking asks processes at their admin addresses: on this machine, or on one that an operator reaches, without a proxy.
var Asking = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// BindAdmin adds the flag of the admin address of the process that a command asks, which the process's variable sets, too.
func BindAdmin(cmd *cobra.Command, usage, fallback string) (address func() string) {
	flag := cmd.Flags().String(AdminFlag, fallback, usage)
	return func() string {
		if set := os.Getenv(config.Variable(AdminFlag)); set != "" && !cmd.Flags().Changed(AdminFlag) {
			return set
		}
		return *flag
	}
}

// Question is the question for a page of the process at an admin address.
func Question(ctx context.Context, address, page string) (*http.Request, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, cli.BadInput(fmt.Errorf("--%s: %w", AdminFlag, err))
	}
	if host == "" || net.ParseIP(host).IsUnspecified() {
		host = "127.0.0.1" // all addresses of this machine include this one
	}
	question, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+page, http.NoBody)
	if err != nil {
		return nil, cli.BadInput(fmt.Errorf("--%s: %w", AdminFlag, err))
	}
	return question, nil
}
