package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/clients/agent/shadow"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
)

// shadowPath is where an agent's admin address serves the report.
const shadowPath = "/shadow"

// The report of a running agent: how long it may take, and how large it may be.
const (
	reportTimeout  = 30 * time.Second
	maxReportBytes = 256 << 20
)

// reportFlags say whether the report is wanted, and of what.
type reportFlags struct {
	all, differing bool
	output         *cli.OutputFlag
}

func addReportFlags(flags *pflag.FlagSet) *reportFlags {
	r := &reportFlags{output: cli.NewOutputFlag(cli.AsText, cli.AsJSON)}
	flags.BoolVar(&r.all, "report", false, "print how far a running agent's shadows (--admin-address) agree with the acting controller, and exit")
	flags.BoolVar(&r.differing, "report-differing", false, "print only the shadows that differ or did, largest difference first, and why; then exit")
	flags.VarP(r.output, "output", "o", "form of the report: text or json")
	return r
}

// shadowReport prints the report of the agent at the admin address.
func shadowReport(cmd *cobra.Command, s *agentSettings, r *reportFlags) error {
	if s.AdminAddress == "" {
		return cli.BadInput(fmt.Errorf("--report: --admin-address says which agent is asked"))
	}
	address := s.AdminAddress
	if strings.HasPrefix(address, ":") {
		address = "127.0.0.1" + address
	}
	client := &http.Client{Timeout: reportTimeout}
	request, err := http.NewRequestWithContext(cmd.Context(), http.MethodGet, "http://"+address+shadowPath, nil)
	if err != nil {
		return cli.BadInput(fmt.Errorf("--admin-address: %w", err))
	}
	answer, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("no agent answers at --admin-address %s: %w", s.AdminAddress, err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("http://%s%s answers %s: is an agent there?", address, shadowPath, answer.Status)
	}
	var report shadow.Report
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxReportBytes)).Decode(&report); err != nil {
		return fmt.Errorf("http://%s%s: %w", address, shadowPath, err)
	}
	switch {
	case r.output.Form == cli.AsText && r.differing:
		return report.WriteDiffering(cmd.OutOrStdout())
	case r.output.Form == cli.AsText:
		return report.WriteText(cmd.OutOrStdout())
	}
	part := &report
	if r.differing {
		part = report.Differing()
	}
	encoder := json.NewEncoder(cmd.OutOrStdout())
	encoder.SetIndent("", "  ")
	return encoder.Encode(part)
}
