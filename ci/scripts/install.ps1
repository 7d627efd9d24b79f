# The first step of ci/action.yml on Windows: resolves the deadline, then finds or installs ledger. The same rules as install.sh.
# Reads LEDGER_IN_* variables, evaluates none of them. Writes `ledger` and `deadline` to GITHUB_OUTPUT.
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'

function Write-Annotation([string]$Level, [string]$Text) {
  $Text = $Text.Replace('%', '%25').Replace("`r", '%0D').Replace("`n", '%0A')
  Write-Host "::$Level title=ledger::$Text"
}

function Stop-Refused([string]$Text, [int]$Code = 1) {
  Write-Annotation error $Text
  exit $Code
}

function Set-Output([string]$Name, [string]$Value) {
  Add-Content -LiteralPath $env:GITHUB_OUTPUT -Value "$Name=$Value" -Encoding utf8NoBOM
}

# A value of [package] in Cargo.toml of the checkout that this action is part of.
function Get-Package([string]$Key) {
  $line = Get-Content -LiteralPath (Join-Path $Checkout 'Cargo.toml') | Where-Object { $_ -match "^$Key = `"(.*)`"$" } | Select-Object -First 1
  if ($line -match '= "(.*)"$') { $Matches[1] }
}

# Nothing where there is no asset. One that is not what its checksum says ends the job: building from source would hide that it was changed.
function Install-Asset {
  $name = "ledger-v$Version-x86_64-pc-windows-msvc"
  $url = if ($env:LEDGER_IN_RELEASE_URL) { $env:LEDGER_IN_RELEASE_URL } else { "$(Get-Package repository)/releases/download/v$Version" }
  $archive = Join-Path $Work "$name.zip"
  $sums = Join-Path $Work 'SHA256SUMS'
  try {
    Invoke-WebRequest -Uri "$url/$name.zip" -OutFile $archive -MaximumRetryCount 3 -RetryIntervalSec 2 -TimeoutSec 180
    Invoke-WebRequest -Uri "$url/SHA256SUMS" -OutFile $sums -MaximumRetryCount 3 -RetryIntervalSec 2 -TimeoutSec 60
  } catch {
    Write-Host "ledger action: no release asset: $($_.Exception.Message)"
    return
  }
  $wanted = ''
  foreach ($line in Get-Content -LiteralPath $sums) {
    $words = $line -split '\s+'
    if ($words.Count -ge 2 -and $words[1].TrimStart('*') -eq "$name.zip") { $wanted = $words[0] }
  }
  $found = (Get-FileHash -LiteralPath $archive -Algorithm SHA256).Hash
  if (-not $wanted -or $wanted -ine $found) {
    Stop-Refused "$name.zip has the checksum $found, and SHA256SUMS says '$wanted': it was not installed"
  }
  if ($env:LEDGER_IN_ATTESTATION -eq 'true') {
    $env:GH_TOKEN = $env:LEDGER_IN_TOKEN
    gh attestation verify $archive --repo ((Get-Package repository) -replace '^https://github.com/', '') | Out-Host
    if ($LASTEXITCODE -ne 0) { Stop-Refused "$name.zip has no provenance that can be verified: it was not installed" }
  }
  Expand-Archive -LiteralPath $archive -DestinationPath $Work -Force
  $script:Program = Join-Path $Work $name 'ledger.exe'
}

function Install-WithCargo([string[]]$What) {
  if (-not (Get-Command cargo -ErrorAction SilentlyContinue)) {
    Stop-Refused "no release asset of ledger $Version could be had for this machine, and there is no cargo to build it with"
  }
  Write-Annotation warning "ledger $Version is built from source, which takes minutes: no release asset could be had for this machine"
  cargo install --locked --quiet --root $Work @What | Out-Host
  if ($LASTEXITCODE -ne 0) { exit $LASTEXITCODE }
  $script:Program = Join-Path $Work 'bin' 'ledger.exe'
}

$minutes = $env:LEDGER_IN_TIMEOUT_MINUTES
if ($minutes) {
  if ($minutes -notmatch '^[1-9][0-9]{0,5}$') { Stop-Refused "timeout-minutes '$minutes': write a whole number of minutes" 2 }
  $deadline = [DateTimeOffset]::UtcNow.ToUnixTimeSeconds() + 60 * [long]$minutes
  if ($env:LEDGER_DEADLINE -match '^[0-9]{9,11}$' -and [long]$env:LEDGER_DEADLINE -lt $deadline) { $deadline = [long]$env:LEDGER_DEADLINE }
  Set-Output deadline "$deadline"
}
$Checkout = (Resolve-Path (Join-Path $PSScriptRoot '..' '..')).Path
$Version = if ($env:LEDGER_IN_VERSION) { $env:LEDGER_IN_VERSION } else { Get-Package version }
$Version = $Version -replace '^v', ''
$Work = Join-Path $env:RUNNER_TEMP 'ledger-install'
New-Item -ItemType Directory -Force -Path $Work | Out-Null
$Program = $null
if ($env:LEDGER_IN_BINARY) {
  if (-not (Test-Path -LiteralPath $env:LEDGER_IN_BINARY -PathType Leaf)) { Stop-Refused "binary '$($env:LEDGER_IN_BINARY)': there is no such program" 2 }
  $Program = (Resolve-Path -LiteralPath $env:LEDGER_IN_BINARY).Path
} elseif ($Version -eq 'source') {
  Install-WithCargo @('--path', $Checkout)
} elseif ($Version -match '^[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?$') {
  Install-Asset
  if (-not $Program) { Install-WithCargo @('--version', $Version, 'ci-ledger') }
} else {
  Stop-Refused "version '$Version': write a release such as 0.1.0, or source" 2
}
& $Program --version
if ($LASTEXITCODE -ne 0) { exit $LASTEXITCODE }
Set-Output ledger $Program
Add-Content -LiteralPath $env:GITHUB_PATH -Value (Split-Path -Parent $Program) -Encoding utf8NoBOM
exit 0
