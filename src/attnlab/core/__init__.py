"""The floor everything stands on: settings, seeds, devices, files, errors, words for shapes."""
