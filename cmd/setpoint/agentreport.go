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

	"github.com/setpoint-dev/setpoint/clients/kubernetes/agent/shadow"
)

// shadowPath is where an agent's admin address serves the report.
const shadowPath = "/shadow"

// The report of a running agent: how long it may take, and how large it may be.
const (
	reportTimeout  = 30 * time.Second
	maxReportBytes = 256 << 20
)

func addReportFlags(flags *pflag.FlagSet, report *bool, output *outputFlag) {
	flags.BoolVar(report, "report", false, "print how the shadows of a running agent (--admin-address) agree with the controller in charge, and end")
	flags.VarP(output, "output", "o", "form of the report: text or json")
}

// shadowReport prints the report of the agent at the admin address.
func shadowReport(cmd *cobra.Command, s *agentSettings, form string) error {
	if s.AdminAddress == "" {
		return badInput(fmt.Errorf("--report: --admin-address says which agent is asked"))
	}
	address := s.AdminAddress
	if strings.HasPrefix(address, ":") {
		address = "127.0.0.1" + address
	}
	client := &http.Client{Timeout: reportTimeout}
	request, err := http.NewRequestWithContext(cmd.Context(), http.MethodGet, "http://"+address+shadowPath, nil)
	if err != nil {
		return badInput(fmt.Errorf("--admin-address: %w", err))
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
	if form == asText {
		return report.WriteText(cmd.OutOrStdout())
	}
	encoder := json.NewEncoder(cmd.OutOrStdout())
	encoder.SetIndent("", "  ")
	return encoder.Encode(&report)
}
