"""What every other package uses: settings, seeds, devices, files, errors, shape names."""
