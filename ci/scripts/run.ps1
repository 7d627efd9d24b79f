# The step of ci/action.yml that runs the files, on Windows. LEDGER_IN_* variables become arguments; nothing is evaluated as code.
# PowerShell cannot exec; the runner's Ctrl-C reaches every process of the console, so ledger sees it all the same.
$ErrorActionPreference = 'Stop'
# Arguments reach ledger as they are, also quotes and empty ones.
$PSNativeCommandArgumentPassing = 'Standard'

# Of a single line each blank-separated word, of several lines each line.
function Split-Words([string]$Text) {
  $lines = @($Text.Replace("`r", '').TrimEnd("`n").Split("`n"))
  if ($lines.Count -eq 1) { $lines = @($lines[0] -split '[ \t]+') }
  @($lines | Where-Object { $_ -ne '' })
}

$arguments = [System.Collections.Generic.List[string]]::new()
$arguments.Add('run')
# `--flag=value`, so that a value that begins with a dash is still a value.
foreach ($flag in 'caps', 'cap', 'deadline', 'reserve', 'min-viable', 'platform', 'target', 'resolved', 'shard', 'scope', 'heartbeat', 'legs') {
  $value = [Environment]::GetEnvironmentVariable('LEDGER_IN_' + $flag.ToUpperInvariant().Replace('-', '_'))
  if ($value) { $arguments.Add("--$flag=$value") }
}
if ($env:LEDGER_IN_REQUIRE_SINK -eq 'true') { $arguments.Add('--require-sink') }
$written = if ($env:LEDGER_IN_SINKS) { $env:LEDGER_IN_SINKS } else { "$env:LEDGER_SINK" }
$sinks = @(Split-Words $written)
if ($env:LEDGER_IN_SINKS) { foreach ($sink in $sinks) { $arguments.Add("--sink=$sink") } }
$config = 'ledger.toml'
$before = ''
foreach ($word in Split-Words "$env:LEDGER_IN_ARGS") {
  $arguments.Add($word)
  if ("$before$word" -match '^--sink[= ](github:.*)') { $sinks += $Matches[1] }
  if ("$before$word" -match '^--config[= ](.*)') { $config = $Matches[1] }
  $before = if ($word -in '--sink', '--config') { "$word " } else { '' }
}
foreach ($file in Split-Words "$env:LEDGER_IN_FILES") { $arguments.Add($(if ($file.StartsWith('-')) { "./$file" } else { $file })) }
$command = @(Split-Words "$env:LEDGER_IN_COMMAND")
if ($command.Count -gt 0) {
  $arguments.Add('--')
  foreach ($word in $command) { $arguments.Add($word) }
}

$program = $env:LEDGER_IN_PROGRAM
if ($env:LEDGER_IN_WORKING_DIRECTORY) { Set-Location -LiteralPath $env:LEDGER_IN_WORKING_DIRECTORY }
# With no sink named here, [run] sinks speak.
if (-not $written -and (Test-Path -LiteralPath $config) -and (Select-String -LiteralPath $config -Pattern '["'']github:' -Quiet)) { $sinks += 'github:' }
# ledger keeps it from the tests: it can write check runs.
if ($env:LEDGER_IN_TOKEN -and ($sinks | Where-Object { $_.StartsWith('github:') })) { $env:LEDGER_GITHUB_TOKEN = $env:LEDGER_IN_TOKEN }
# What a torn-down step leaves: ledger appends its own values at its end, and the last one counts.
Add-Content -LiteralPath $env:GITHUB_OUTPUT -Value "loop-finished=false`nconclusion=incomplete" -Encoding utf8NoBOM
# The tests see none of this.
Get-ChildItem Env: | Where-Object Name -Like 'LEDGER_IN_*' | ForEach-Object { Remove-Item -LiteralPath "Env:$($_.Name)" }
& $program @arguments
exit $LASTEXITCODE
