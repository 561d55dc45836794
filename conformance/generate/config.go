package generate

import (
	"math"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
)

// defaultConfig holds the controller's defaults.
var defaultConfig = recording.Config{
	Tolerance:                      0.1,
	CPUInitializationPeriodSeconds: 300,
	InitialReadinessDelaySeconds:   30,
	DownscaleStabilizationSeconds:  300,
}

// otherConfigs are a few fixed ones, each with and without scaling to zero: a real
// controller can then be kept for each.
var otherConfigs = []recording.Config{
	{Tolerance: 0, CPUInitializationPeriodSeconds: 300, InitialReadinessDelaySeconds: 30, DownscaleStabilizationSeconds: 300},
	{Tolerance: 0.05, CPUInitializationPeriodSeconds: 300, InitialReadinessDelaySeconds: 30, DownscaleStabilizationSeconds: 300},
	{Tolerance: 0.2, CPUInitializationPeriodSeconds: 300, InitialReadinessDelaySeconds: 30, DownscaleStabilizationSeconds: 300},
	{Tolerance: 1.5, CPUInitializationPeriodSeconds: 300, InitialReadinessDelaySeconds: 30, DownscaleStabilizationSeconds: 60},
	{Tolerance: 0.1, CPUInitializationPeriodSeconds: 0, InitialReadinessDelaySeconds: 30, DownscaleStabilizationSeconds: 300},
	{Tolerance: 0.1, CPUInitializationPeriodSeconds: 60, InitialReadinessDelaySeconds: 30, DownscaleStabilizationSeconds: 300},
	{Tolerance: 0.1, CPUInitializationPeriodSeconds: 90.5, InitialReadinessDelaySeconds: 30, DownscaleStabilizationSeconds: 0},
	{Tolerance: 0.1, CPUInitializationPeriodSeconds: 300, InitialReadinessDelaySeconds: 0, DownscaleStabilizationSeconds: 300},
	{Tolerance: 0.1, CPUInitializationPeriodSeconds: 60, InitialReadinessDelaySeconds: 90, DownscaleStabilizationSeconds: 300},
	{Tolerance: 0.1, CPUInitializationPeriodSeconds: 300, InitialReadinessDelaySeconds: 30, DownscaleStabilizationSeconds: 0},
	{Tolerance: 0.1, CPUInitializationPeriodSeconds: 300, InitialReadinessDelaySeconds: 30, DownscaleStabilizationSeconds: 15},
	{Tolerance: 0.1, CPUInitializationPeriodSeconds: 300, InitialReadinessDelaySeconds: 30, DownscaleStabilizationSeconds: 60},
	{Tolerance: 0.1, CPUInitializationPeriodSeconds: 300, InitialReadinessDelaySeconds: 30, DownscaleStabilizationSeconds: 90.5},
	{Tolerance: 0.1, CPUInitializationPeriodSeconds: 300, InitialReadinessDelaySeconds: 30, DownscaleStabilizationSeconds: 3600},
	{Tolerance: 0.02, CPUInitializationPeriodSeconds: 15, InitialReadinessDelaySeconds: 15, DownscaleStabilizationSeconds: 0.5},
	{Tolerance: 0, CPUInitializationPeriodSeconds: 0, InitialReadinessDelaySeconds: 0, DownscaleStabilizationSeconds: 0},
}

// config returns the settings of a scenario's controller. Defaults are most frequent,
// as in practice.
func (r random) config(v *version) recording.Config {
	config := defaultConfig
	if r.chance(0.5) {
		config = oneOf(r, otherConfigs...)
	}
	if r.chance(0.1) {
		config = r.oddConfig()
	}
	config.ScaleToZero = r.chance(v.scaleToZero)
	return config
}

// oddConfig returns settings that nobody chooses, all the digits of which count.
func (r random) oddConfig() recording.Config {
	period := func(most float64) float64 {
		return oneOf(r, 0, 1e-9, 0.999999999, float64(r.between(1, int(most))), math.Round(r.real(0, most)*1e9)/1e9, 1e6)
	}
	return recording.Config{
		Tolerance:                      oneOf(r, r.Float64(), r.real(0, 0.2), 1, 0.3, 1.0/3, 1e-9, 2.5),
		CPUInitializationPeriodSeconds: period(600), InitialReadinessDelaySeconds: period(120), DownscaleStabilizationSeconds: period(900),
	}
}
